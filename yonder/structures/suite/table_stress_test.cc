// Threads that change, find and grow one table at the same time, in real time; what they
// saw is checked for linearizability per key.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/fabric/testbed/tcp_place.h"
#include "yonder/os/steady_clock.h"
#include "yonder/structures/hash_table.h"
#include "yonder/structures/suite/real_bed.h"
#include "yonder/testing/history.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::suite {
namespace {

using ::yonder::testing::HistoryCall;
using ::yonder::testing::HistoryEvent;

constexpr std::uint64_t kKeys = 200;

std::int64_t now_ns() { return os::SteadyClock::read().ns(); }

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

class Stress {
 public:
  Stress(Place& place, int operations) : bed_(place, 8 << 20), operations_(operations) {
    Thread first(bed_);
    EXPECT_TRUE(HashTable::create(first.port, bed_.token(), {.log2_buckets = 4}));
    const auto table = HashTable::open(place.client_fabric(), first.port, bed_.token()).value();
    for (std::uint64_t key = 0; key < kKeys; ++key) put(*table, key, key + 1, history_);
  }

  void run(int threads) {
    Prng random(::yonder::testing::test_seed());
    std::vector<std::vector<HistoryEvent>> histories(static_cast<std::size_t>(threads));
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < histories.size(); ++i) {
      workers.emplace_back([this, i, random = random.split(), &history = histories[i]]() mutable {
        work(i + 1, random, history);
      });
    }
    for (std::thread& worker : workers) worker.join();
    for (const auto& history : histories) history_.insert(history_.end(), history.begin(), history.end());
    const auto violation = ::yonder::testing::find_violation(history_);
    EXPECT_FALSE(violation) << *violation;
  }

 private:
  void work(std::uint64_t thread, Prng& random, std::vector<HistoryEvent>& history) {
    Thread own(bed_);
    const auto table = HashTable::open(bed_.fabric(), own.port, bed_.token(), {.kept_images = 16}).value();
    for (int i = 0; i < operations_; ++i) {
      const std::uint64_t key = random.chance(0.3) ? random.below(3) : random.below(kKeys);
      if (random.chance(0.4)) {
        put(*table, key, thread << 32 | static_cast<std::uint64_t>(i), history);
      } else {
        find(*table, key, history);
      }
      if (i == operations_ / 2) {
        EXPECT_TRUE(table->grow());
      }
    }
  }

  static void put(HashTable& table, std::uint64_t key, std::uint64_t value,
                  std::vector<HistoryEvent>& history) {
    std::vector<std::byte> bytes(8 + value % 90);
    std::memcpy(bytes.data(), &value, sizeof value);
    HistoryEvent event{
        .object = key, .call = HistoryCall::kWrite, .begin_ns = now_ns(), .fingerprint = value};
    const auto version = table.put(bytes_of(key), bytes);
    ASSERT_TRUE(version) << version.error();
    event.end_ns = now_ns();
    event.version = *version;
    history.push_back(event);
  }

  static void find(HashTable& table, std::uint64_t key, std::vector<HistoryEvent>& history) {
    std::vector<std::byte> bytes;
    HistoryEvent event{.object = key, .begin_ns = now_ns()};
    const auto version = table.find(bytes_of(key), bytes);
    ASSERT_TRUE(version) << version.error();
    event.end_ns = now_ns();
    event.version = *version;
    ASSERT_GE(bytes.size(), 8u);
    std::memcpy(&event.fingerprint, bytes.data(), 8);
    ASSERT_EQ(bytes.size(), 8 + event.fingerprint % 90);
    history.push_back(event);
  }

  RealBed bed_;
  const int operations_;
  std::vector<HistoryEvent> history_;
};

TEST(TableStress, ThreadsShareATableThroughSharedMemory) {
  ShmPlace place("?inprocess=off");
  Stress(place, testing::scaled(100'000)).run(3);
}

TEST(TableStress, ThreadsShareATableOverTcp) {
  TcpPlace place;
  Stress(place, testing::scaled(2'000)).run(2);
}

}  // namespace
}  // namespace yonder::structures::suite
