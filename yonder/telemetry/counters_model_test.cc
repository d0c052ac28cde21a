// Random counting from short-lived threads against a naive twin.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>
#include <vector>

#include "yonder/telemetry/counters.h"
#include "yonder/testing/seed.h"

namespace yonder::telemetry {
namespace {

constexpr std::size_t kCounters = 5;

TEST(CountersModel, AgreeWithATwinHoweverThreadsComeAndGo) {
  std::mt19937_64 random(testing::test_seed());
  Registry registry({.max_threads = 3});
  std::vector<Counter> counters;
  for (std::size_t i = 0; i < kCounters; ++i)
    counters.push_back(
        registry.counter({.name = "yonder_c" + std::to_string(i) + "_total", .help = "A counter."}).value());
  std::array<std::uint64_t, kCounters> twin{};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::thread> threads;
    for (std::uint64_t n = random() % 5; n != 0; --n) {
      const std::size_t which = random() % kCounters;
      const std::uint64_t amount = random() % 100;
      const int times = static_cast<int>(random() % 4);
      twin[which] += amount * static_cast<std::uint64_t>(times);
      threads.emplace_back([&counters, which, amount, times] {
        for (int i = 0; i < times; ++i) counters[which].add(amount);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto values = registry.snapshot();
    for (std::size_t i = 0; i < kCounters; ++i) ASSERT_EQ(values[i].counter, twin[i]);
  }
}

}  // namespace
}  // namespace yonder::telemetry
