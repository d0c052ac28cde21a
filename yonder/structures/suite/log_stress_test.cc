// Threads that append, read and trim one log at the same time, in real time.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "yonder/structures/log.h"
#include "yonder/structures/suite/real_bed.h"
#include "yonder/testing/sanitizer.h"

namespace yonder::structures::suite {
namespace {

constexpr LogOptions kOptions{.slots = 512, .lease = std::chrono::seconds(5)};
constexpr std::uint64_t kWriters = 2;

// Number, writer, and the number again: nothing of it can be torn unnoticed.
struct Record {
  std::uint64_t number;
  std::uint64_t writer;
  std::uint64_t again;
};

class Stress {
 public:
  explicit Stress(Place& place) : bed_(place, Log::bytes_for(kOptions)) {
    Thread first(bed_);
    EXPECT_TRUE(Log::create(first.port, bed_.token(), kOptions));
  }

  void run(std::uint64_t appends) {
    std::vector<std::thread> writers;
    for (std::uint64_t i = 0; i < kWriters; ++i)
      writers.emplace_back([this, i, appends] { write(i, appends); });
    read(appends);
    for (std::thread& writer : writers) writer.join();
  }

 private:
  // In batches of one to eight records; waits while the log is full.
  void write(std::uint64_t writer, std::uint64_t appends) {
    Thread own(bed_);
    const auto log = Log::open(bed_.fabric(), own.port, bed_.token()).value();
    std::vector<Record> records(8);
    for (std::uint64_t number = 0; number < appends;) {
      const std::uint64_t count = std::min(1 + number % 8, appends - number);
      std::vector<std::span<const std::byte>> spans;
      for (std::uint64_t i = 0; i < count; ++i) {
        records[i] = {number + i, writer, number + i};
        spans.push_back(std::as_bytes(std::span(&records[i], 1)));
      }
      const auto at = log->append_many(spans);
      if (!at) {
        ASSERT_EQ(at.error(), ErrorCode::kResourceExhausted) << at.error();
        std::this_thread::yield();
        continue;
      }
      number += count;
    }
  }

  // Every writer's numbers in order and none missing; trims what it has read.
  void read(std::uint64_t appends) {
    Thread own(bed_);
    const auto log = Log::open(bed_.fabric(), own.port, bed_.token()).value();
    const auto reader = log->reader({});
    std::vector<std::uint64_t> expected(kWriters);
    std::uint64_t seen = 0;
    while (seen < kWriters * appends) {
      const auto records = reader->next();
      ASSERT_TRUE(records) << records.error();
      for (const LogRecord& record : *records) {
        Record value;
        ASSERT_EQ(record.bytes.size(), sizeof value);
        std::memcpy(&value, record.bytes.data(), sizeof value);
        ASSERT_LT(value.writer, kWriters);
        ASSERT_EQ(value.number, expected[value.writer]++);
        ASSERT_EQ(value.again, value.number);
        ++seen;
      }
      ASSERT_TRUE(log->trim(reader->position()));
    }
  }

  RealBed bed_;
};

TEST(LogStress, ThreadsShareALogThroughSharedMemory) {
  ShmPlace place("?inprocess=off");
  Stress(place).run(static_cast<std::uint64_t>(testing::scaled(20'000)));
}

TEST(LogStress, ThreadsShareALogOverTcp) {
  TcpPlace place;
  Stress(place).run(static_cast<std::uint64_t>(testing::scaled(3'000)));
}

}  // namespace
}  // namespace yonder::structures::suite
