// Many seeds of a hash table whose front ends meet lost messages, torn reads, broken
// connections and crashes, while it grows:
//   H1  what the calls returned is linearizable per key
//   H2  every call ends, with a value or a typed error
//   H3  in the end every key is there, once, with the last value
// A failure names its seed; --seed=N runs that one first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/lender.h"
#include "yonder/base/prng.h"
#include "yonder/structures/hash_table.h"
#include "yonder/testing/history.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;
using fabric::Task;
using structures::HashTable;
using structures::TableVersion;
using ::yonder::testing::HistoryCall;
using ::yonder::testing::HistoryEvent;

constexpr std::uint32_t kFrontEnds = 3;
constexpr std::uint32_t kTasks = 3;  // Of each front end: they leave together or overtake.
constexpr std::uint64_t kKeys = 40;  // In 16 buckets, and more as it grows.
constexpr int kOperations = 20;      // Of each task.

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed) : random_(seed), lender_(seed, kFrontEnds + 1, 1 << 20) {
    for (std::uint32_t host = 1; host <= kFrontEnds; ++host) open(host);
    for (std::uint64_t key = 0; key < kKeys; ++key) lender_.scheduler().block_on(put(*tables_[0], key));
    // No completion errors: a NIC does not execute what comes behind a request that failed.
    lender_.begin_faults(random_, {.max_loss = 0.02, .max_connection_break = 0.01}, 500us);
  }

  void run() {
    for (const auto& table : tables_) {
      for (std::uint32_t i = 0; i < kTasks; ++i) lender_.scheduler().spawn(work(*table));
    }
    ASSERT_TRUE(lender_.run_until(finished_, kFrontEnds * kTasks)) << "H2: a call never ended";
    lender_.end_faults();
    read_all();
    resolve_uncertain_writes();
    const auto violation = ::yonder::testing::find_violation(history_);
    EXPECT_FALSE(violation) << "H1: " << *violation;
  }

  std::uint64_t splits() const { return sum(&structures::TableStats::splits); }
  std::uint64_t lost_swaps() const { return sum(&structures::TableStats::lost_swaps); }
  std::uint64_t reread() const { return sum(&structures::TableStats::reread); }

 private:
  std::uint64_t sum(std::uint64_t structures::TableStats::* counter) const {
    std::uint64_t total = 0;
    for (const auto& table : tables_) total += table->stats().*counter;
    return total;
  }

  void open(std::uint32_t host) {
    const remote::Port port = lender_.connect(host, 200ms);
    if (host == 1) {
      EXPECT_TRUE(HashTable::create(port, lender_.token(), {.log2_buckets = 4, .hash_seed = random_() | 1}));
    }
    const structures::FrontEndOptions options{.chunk_bytes = 4096,
                                              .consolidate = random_.chance(0.7),
                                              .kept_images = static_cast<std::uint32_t>(random_.below(20))};
    tables_.push_back(HashTable::open(lender_.fabric(host), port, lender_.token(), options).value());
  }

  Task<void> work(HashTable& table) {
    for (int i = 0; i < kOperations; ++i) {
      const std::uint64_t dice = random_.below(100);
      // A few keys are hot.
      const std::uint64_t key = random_.chance(0.5) ? random_.below(3) : random_.below(kKeys);
      if (dice < 3) {
        (void)co_await table.async_grow();
      } else if (dice < 50) {
        co_await put(table, key);
      } else if (dice < 90) {
        co_await find(table, key);
      } else {
        co_await find_many(table);
      }
    }
    ++finished_;
  }

  Task<void> put(HashTable& table, std::uint64_t key) {
    const std::uint64_t value = ++last_value_;
    // Images of different lengths.
    std::vector<std::byte> bytes(8 + value % 50);
    std::memcpy(bytes.data(), &value, sizeof value);
    HistoryEvent event{.object = key,
                       .call = HistoryCall::kWrite,
                       .begin_ns = lender_.clock().now().ns(),
                       .fingerprint = value};
    const auto version = co_await table.async_put(bytes_of(key), bytes);
    event.end_ns = lender_.clock().now().ns();
    if (version) {
      event.version = *version;
      history_.push_back(event);
    } else {
      uncertain_.emplace(value, event);
    }
  }

  Task<void> find(HashTable& table, std::uint64_t key) {
    std::vector<std::byte> value;
    const std::int64_t begin = lender_.clock().now().ns();
    const auto version = co_await table.async_find(bytes_of(key), value);
    record_read(key, begin, version, value);
  }

  Task<void> find_many(HashTable& table) {
    std::vector<std::uint64_t> keys(5);
    std::vector<structures::FindItem> items;
    for (std::uint64_t& key : keys) {
      key = random_.below(kKeys);
      items.push_back({.key = bytes_of(key)});
    }
    const std::int64_t begin = lender_.clock().now().ns();
    co_await table.async_find_many(items);
    for (std::size_t i = 0; i < keys.size(); ++i)
      record_read(keys[i], begin, items[i].result, items[i].value);
  }

  void record_read(std::uint64_t key, std::int64_t begin, const Result<TableVersion>& version,
                   const std::vector<std::byte>& value) {
    if (!version) {
      EXPECT_NE(version.error(), ErrorCode::kNotFound) << "H1: key " << key << " is there";
      EXPECT_NE(version.error(), ErrorCode::kCorrupt) << version.error();
      return;
    }
    ASSERT_GE(value.size(), 8u);
    HistoryEvent event{
        .object = key, .begin_ns = begin, .end_ns = lender_.clock().now().ns(), .version = *version};
    std::memcpy(&event.fingerprint, value.data(), 8);
    EXPECT_EQ(value.size(), 8 + event.fingerprint % 50);
    history_.push_back(event);
  }

  // H3, from the first host, which never crashes.
  void read_all() {
    HashTable& table = *tables_[0];
    std::map<std::uint64_t, int> seen;
    for (structures::ScanCursor cursor; !cursor.done;) {
      const std::int64_t begin = lender_.clock().now().ns();
      const auto entries = table.scan(cursor, Deadline::after(lender_.clock(), 2s));
      if (!entries) {
        // Its connection may have to be made again first.
        ASSERT_EQ(entries.error(), ErrorCode::kConnectionLost) << entries.error();
        continue;
      }
      for (const structures::ScannedEntry& entry : *entries) {
        std::uint64_t key = kKeys;
        ASSERT_EQ(entry.key.size(), sizeof key);
        std::memcpy(&key, entry.key.data(), sizeof key);
        ++seen[key];
        record_read(key, begin, entry.version, entry.value);
      }
    }
    EXPECT_EQ(seen.size(), kKeys) << "H3";
    for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << "H3: key " << key;
  }

  // A write that failed may have taken effect: it has, if somebody read it.
  void resolve_uncertain_writes() {
    std::map<std::uint64_t, HistoryEvent> known;
    for (const HistoryEvent& event : history_) {
      const auto write = uncertain_.find(event.fingerprint);
      if (event.call != HistoryCall::kRead || write == uncertain_.end()) continue;
      HistoryEvent effect = write->second;
      effect.version = event.version;
      effect.end_ns = INT64_MAX;
      known.emplace(event.fingerprint, effect);
    }
    for (const auto& [value, event] : known) history_.push_back(event);
  }

  Prng random_;
  Lender lender_;
  std::vector<std::unique_ptr<HashTable>> tables_;
  std::vector<HistoryEvent> history_;
  std::map<std::uint64_t, HistoryEvent> uncertain_;  // By value.
  std::uint64_t last_value_ = 0;
  std::uint32_t finished_ = 0;
};

TEST(TableFaults, KeysAreLinearizableOverManySeeds) {
  std::uint64_t splits = 0;
  std::uint64_t lost_swaps = 0;
  std::uint64_t reread = 0;
  for_many_seeds([&](std::uint64_t seed) {
    Chaos chaos(seed);
    chaos.run();
    splits += chaos.splits();
    lost_swaps += chaos.lost_swaps();
    reread += chaos.reread();
  });
  // In hundreds of seeds all of it happens.
  EXPECT_GT(splits, 0u);
  EXPECT_GT(lost_swaps, 0u);
  EXPECT_GT(reread, 0u);
}

}  // namespace
}  // namespace yonder
