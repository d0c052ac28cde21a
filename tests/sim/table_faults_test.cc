// Many seeds of a hash table whose front ends meet lost messages, torn reads, broken
// connections and crashes, while entries come and go and it grows:
//   H1  what the calls returned is linearizable per key (key_history.h)
//   H2  every call ends, with a value or a typed error
//   H3  in the end a scan gives no key twice, and what it gives or does not give fits H1
// A failure names its seed; --seed=N runs that one first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/key_history.h"
#include "tests/sim/lender.h"
#include "yonder/base/prng.h"
#include "yonder/structures/hash_table.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;
using fabric::Task;
using structures::HashTable;
using structures::TableVersion;

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
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      lender_.scheduler().block_on(change(*tables_[0], KeyCall::kPut, key));
    }
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
    const auto unexplained = find_unexplained(history_);
    EXPECT_FALSE(unexplained) << "H1: " << *unexplained;
  }

  std::uint64_t splits() const { return sum(&structures::TableStats::splits); }
  std::uint64_t lost_swaps() const { return sum(&structures::TableStats::lost_swaps); }
  std::uint64_t reread() const { return sum(&structures::TableStats::reread); }
  // How often a call was answered so.
  std::uint64_t answers(KeyCall call, KeyAnswer answer) const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        history_, [&](const KeyEvent& event) { return event.call == call && event.answer == answer; }));
  }

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
    // Of those that give space back all the time, others take it while they die.
    const structures::FrontEndOptions options{
        .chunk_bytes = 4096,
        .max_free_bytes = random_.chance(0.5) ? random_.below(4096) : 1 << 20,
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
      } else if (dice < 6) {
        (void)co_await table.async_close();  // And goes on.
      } else if (dice < 55) {
        co_await change(table, static_cast<KeyCall>(random_.below(4)), key);
      } else if (dice < 90) {
        co_await find(table, key);
      } else {
        co_await find_many(table);
      }
    }
    ++finished_;
  }

  Task<void> change(HashTable& table, KeyCall call, std::uint64_t key) {
    KeyEvent event{.key = key, .call = call, .begin_ns = lender_.clock().now().ns(), .value = ++last_value_};
    // Images of different lengths.
    std::vector<std::byte> bytes(8 + event.value % 50);
    std::memcpy(bytes.data(), &event.value, sizeof event.value);
    Task<Result<TableVersion>> called = call == KeyCall::kPut      ? table.async_put(bytes_of(key), bytes)
                                        : call == KeyCall::kInsert ? table.async_insert(bytes_of(key), bytes)
                                        : call == KeyCall::kUpdate ? table.async_update(bytes_of(key), bytes)
                                                                   : table.async_erase(bytes_of(key));
    const Result<TableVersion> version = co_await std::move(called);
    record(event, version);
  }

  Task<void> find(HashTable& table, std::uint64_t key) {
    std::vector<std::byte> value;
    const KeyEvent event{.key = key, .begin_ns = lender_.clock().now().ns()};
    const Result<TableVersion> version = co_await table.async_find(bytes_of(key), value);
    record_find(event, version, value);
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
    for (std::size_t i = 0; i < keys.size(); ++i) {
      record_find({.key = keys[i], .begin_ns = begin}, items[i].result, items[i].value);
    }
  }

  void record_find(KeyEvent event, const Result<TableVersion>& version, const std::vector<std::byte>& value) {
    if (version) {
      ASSERT_GE(value.size(), 8u);
      std::memcpy(&event.value, value.data(), 8);
      EXPECT_EQ(value.size(), 8 + event.value % 50);
    }
    record(event, version);
  }

  void record(KeyEvent event, const Result<TableVersion>& version) {
    event.end_ns = lender_.clock().now().ns();
    if (version) {
      event.version = *version;
    } else {
      const Error error = version.error();
      EXPECT_NE(error, ErrorCode::kCorrupt) << error;
      event.answer = error == ErrorCode::kNotFound        ? KeyAnswer::kNotFound
                     : error == ErrorCode::kAlreadyExists ? KeyAnswer::kAlreadyExists
                                                          : KeyAnswer::kUnknown;
    }
    history_.push_back(event);
  }

  // H3, from the first host, which never crashes.
  void read_all() {
    HashTable& table = *tables_[0];
    std::map<std::uint64_t, int> seen;
    const std::int64_t begin = lender_.clock().now().ns();
    for (structures::ScanCursor cursor; !cursor.done;) {
      const std::int64_t step = lender_.clock().now().ns();
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
        EXPECT_EQ(++seen[key], 1) << "H3: key " << key;
        record_find({.key = key, .begin_ns = step}, entry.version, entry.value);
      }
    }
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      if (!seen.contains(key)) record({.key = key, .begin_ns = begin}, fail(ErrorCode::kNotFound, "scan"));
    }
  }

  Prng random_;
  Lender lender_;
  std::vector<std::unique_ptr<HashTable>> tables_;
  std::vector<KeyEvent> history_;
  std::uint64_t last_value_ = 0;
  std::uint32_t finished_ = 0;
};

TEST(TableFaults, KeysAreLinearizableOverManySeeds) {
  std::uint64_t splits = 0;
  std::uint64_t lost_swaps = 0;
  std::uint64_t reread = 0;
  std::map<std::pair<KeyCall, KeyAnswer>, std::uint64_t> answers;
  using enum KeyCall;
  using enum KeyAnswer;
  for_many_seeds([&](std::uint64_t seed) {
    Chaos chaos(seed);
    chaos.run();
    splits += chaos.splits();
    lost_swaps += chaos.lost_swaps();
    reread += chaos.reread();
    for (const KeyCall call : {kPut, kInsert, kUpdate, kErase, kFind}) {
      for (const KeyAnswer answer : {kDone, kNotFound, kAlreadyExists, kUnknown}) {
        answers[{call, answer}] += chaos.answers(call, answer);
      }
    }
  });
  if (HasFailure()) return;
  // In hundreds of seeds all of it happens.
  EXPECT_GT(splits, 0u);
  EXPECT_GT(lost_swaps, 0u);
  EXPECT_GT(reread, 0u);
  for (const KeyCall call : {kPut, kInsert, kUpdate, kErase, kFind}) {
    EXPECT_GT((answers[{call, kDone}]), 0u);
    EXPECT_GT((answers[{call, kUnknown}]), 0u);
  }
  EXPECT_GT((answers[{kInsert, kAlreadyExists}]), 0u);
  for (const KeyCall call : {kUpdate, kErase, kFind}) EXPECT_GT((answers[{call, kNotFound}]), 0u);
}

}  // namespace
}  // namespace yonder
