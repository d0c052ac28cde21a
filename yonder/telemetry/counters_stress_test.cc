#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "yonder/telemetry/counters.h"

namespace yonder::telemetry {
namespace {

constexpr std::uint64_t kPerThread = 20'000;
constexpr int kThreads = 24;

// Threads start and end all the time while another one takes snapshots: the
// snapshots of a counter never go down, and in the end nothing is missing.
TEST(CountersStress, NothingIsLostAndSnapshotsNeverGoDown) {
  Registry registry({.max_threads = 2});
  const Counter counter = registry.counter({.name = "yonder_stress_total", .help = "Counted."}).value();
  const HistogramMetric histogram =
      registry.histogram({.name = "yonder_stress_depth", .help = "Recorded."}).value();
  std::atomic<bool> stop{false};
  std::thread observer([&] {
    std::uint64_t last = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint64_t now = registry.snapshot()[0].counter;
      ASSERT_GE(now, last);
      last = now;
    }
  });
  for (int started = 0; started < kThreads; started += 3) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (std::uint64_t n = 0; n < kPerThread; ++n) {
          counter.add();
          histogram.record(n % 16);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  stop = true;
  observer.join();
  const auto values = registry.snapshot();
  EXPECT_EQ(values[0].counter, kThreads * kPerThread);
  EXPECT_EQ(values[1].to_histogram().count(), kThreads * kPerThread);
}

}  // namespace
}  // namespace yonder::telemetry
