// Many seeds of a log whose writers and readers meet lost messages, broken connections,
// torn writes and crashes:
//   G1  an acknowledged record is read once, whole, at the position that was told
//   G2  any other record is read at most once
//   G3  all readers see the same sequence
//   G4  what was appended after another append was acknowledged stands behind it
//   G5  every call ends, with a value or a typed error, and readers get to the end
// A failure names its seed; --seed=N runs that one first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/lender.h"
#include "yonder/base/prng.h"
#include "yonder/structures/log.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;
using fabric::Task;
using structures::Log;
using structures::LogPosition;
using structures::LogReader;
using structures::LogRecord;

constexpr std::uint32_t kWriters = 3;
constexpr int kAppends = 25;
// Longer and shorter than a message is on its way. Nothing is trimmed here, so a slot is
// never used again and even a lease that every writer misses must do no harm (L4).
constexpr Duration kLeases[] = {20us, 400us, 80ms};

struct Appended {
  std::string text;
  Instant begin;
  Instant end;
  LogPosition position;
};

using Sequence = std::vector<std::pair<LogPosition, std::string>>;

std::string text_of(const LogRecord& record) {
  return {reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size()};
}

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed)
      : random_(seed),
        options_{.slots = 4096, .lease = kLeases[random_.below(std::size(kLeases))]},
        lender_(seed, kWriters + 2, Log::bytes_for(options_)) {
    for (std::uint32_t host = 1; host < kWriters + 2; ++host) {
      const remote::Port port = lender_.connect(host, 500ms);
      if (host == 1) {
        EXPECT_TRUE(Log::create(port, lender_.token(), options_));
      }
      logs_.push_back(Log::open(lender_.fabric(host), port, lender_.token()).value());
    }
    lender_.begin_faults(random_, {.max_completion_error = 0.05}, 400us);
  }

  void run() {
    readers_.push_back(logs_[0]->reader({}));
    lender_.scheduler().spawn(follow(*readers_.back()));
    for (std::uint32_t i = 1; i <= kWriters; ++i) lender_.scheduler().spawn(write(*logs_[i], i));
    ASSERT_TRUE(lender_.run_until(finished_, kWriters + 1)) << "G5: a call never ended";
    lender_.end_faults();
    const auto first = read_all();
    const auto second = read_all();
    EXPECT_TRUE(first == second) << "G3";
    ASSERT_LE(followed_.size(), first.size()) << "G3";
    EXPECT_TRUE(std::equal(followed_.begin(), followed_.end(), first.begin())) << "G3";
    check(first);
  }

  std::uint64_t sealed() const { return logs_[0]->stats().sealed; }
  std::uint64_t overtaken() const {
    std::uint64_t sum = 0;
    for (const auto& log : logs_) sum += log->stats().overtaken;
    return sum;
  }
  std::size_t acknowledged() const { return appended_.size(); }

 private:
  Task<void> write(Log& log, std::uint32_t writer) {
    for (int i = 0; i < kAppends; ++i) {
      std::vector<std::string> texts;
      const std::uint64_t count = 1 + (random_.chance(0.3) ? random_.below(8) : 0);
      for (std::uint64_t j = 0; j < count; ++j) {
        texts.push_back(std::to_string(writer) + ":" + std::to_string(i) + ":" + std::to_string(j) +
                        std::string(random_.below(120), '.'));
        attempted_.insert(texts.back());
      }
      std::vector<std::span<const std::byte>> records;
      for (const std::string& text : texts) records.push_back(std::as_bytes(std::span(text)));
      const auto batching =
          random_.chance(0.5) ? structures::LogBatching::kPack : structures::LogBatching::kGather;
      const Instant begin = lender_.clock().now();
      const auto at = co_await log.async_append_many(records, {.batching = batching});
      if (!at) continue;
      for (std::uint32_t j = 0; j < count; ++j) {
        appended_.push_back({.text = texts[j],
                             .begin = begin,
                             .end = lender_.clock().now(),
                             .position = {.slot = at->slot, .index = j}});
      }
    }
    ++finished_;
  }

  // Reads while the others write.
  Task<void> follow(LogReader& reader) {
    for (int quiet = 0; quiet < 3;) {
      const auto records = co_await reader.async_next(Deadline::after(lender_.clock(), 20ms));
      if (records) {
        for (const LogRecord& record : *records) followed_.emplace_back(record.position, text_of(record));
      } else if (records.error() == ErrorCode::kCorrupt) {
        damaged_.insert(reader.position());
        reader.skip();
      } else {
        quiet += finished_ == kWriters ? 1 : 0;
      }
    }
    ++finished_;
  }

  // Everything, from the first host, which never crashes.
  Sequence read_all() {
    Sequence out;
    auto bounds = logs_[0]->bounds();
    // Its connection may have to be made again first.
    while (!bounds) bounds = logs_[0]->bounds();
    const LogPosition end = bounds->end;
    readers_.push_back(logs_[0]->reader({}));
    LogReader& reader = *readers_.back();
    while (reader.position() < end) {
      const auto records = reader.next(Deadline::after(lender_.clock(), 2s));
      if (records) {
        for (const LogRecord& record : *records) {
          out.emplace_back(record.position, std::string(reinterpret_cast<const char*>(record.bytes.data()),
                                                        record.bytes.size()));
        }
        continue;
      }
      if (records.error() == ErrorCode::kCorrupt) {
        damaged_.insert(reader.position());
        reader.skip();
        continue;
      }
      // A break that was still to come: the reader is where it was.
      if (records.error() == ErrorCode::kConnectionLost) continue;
      // Holes at the very end are skipped without a record to show for it.
      if (records.error() == ErrorCode::kDeadlineExceeded && reader.position() >= end) break;
      ADD_FAILURE() << "G5: " << records.error();
      break;
    }
    return out;
  }

  void check(const Sequence& seen) {
    std::map<LogPosition, std::string> at;
    std::set<std::string> once;
    for (const auto& [position, text] : seen) {
      at.emplace(position, text);
      EXPECT_TRUE(attempted_.contains(text)) << "G2: never appended: " << text;
      EXPECT_TRUE(once.insert(text).second) << "G2: twice: " << text;
    }
    for (const Appended& one : appended_) {
      EXPECT_EQ(at[one.position], one.text) << "G1";
      EXPECT_FALSE(damaged_.contains({.slot = one.position.slot})) << "G1";
    }
    std::ranges::sort(appended_, {}, &Appended::position);
    Instant latest_begin;
    for (const Appended& one : appended_) {
      EXPECT_GE(one.end, latest_begin) << "G4: " << one.text << " ended before one in front of it began";
      latest_begin = std::max(latest_begin, one.begin);
    }
  }

  Prng random_;
  const structures::LogOptions options_;
  Lender lender_;
  std::vector<std::unique_ptr<Log>> logs_;
  std::vector<std::unique_ptr<LogReader>> readers_;
  std::set<std::string> attempted_;
  std::vector<Appended> appended_;
  std::set<LogPosition> damaged_;
  Sequence followed_;
  std::uint32_t finished_ = 0;
};

TEST(LogFaults, NothingAcknowledgedIsLostOverManySeeds) {
  std::uint64_t sealed = 0;
  std::uint64_t overtaken = 0;
  std::size_t acknowledged = 0;
  for_many_seeds([&](std::uint64_t seed) {
    Chaos chaos(seed);
    chaos.run();
    sealed += chaos.sealed();
    overtaken += chaos.overtaken();
    acknowledged += chaos.acknowledged();
  });
  // Of hundreds of seeds, most have writers that die or lose an answer.
  EXPECT_GT(sealed, 0u);
  EXPECT_GT(overtaken, 0u);
  EXPECT_GT(acknowledged, 0u);
}

}  // namespace
}  // namespace yonder
