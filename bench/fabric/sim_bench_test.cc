// The simulator's speed, for seconds only: that it can be measured, allocates
// nothing per operation, and repeats itself.
#include "bench/fabric/sim_bench.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "bench/harness/heap_counter.h"

namespace yonder::bench {
namespace {

constexpr SimSpeedOptions kQuick{.seed = 5, .operations = 200'000};

TEST(SimSpeed, TheSteadyStateAllocatesNothing) {
  const auto speed = measure_sim_speed(kQuick);
  ASSERT_TRUE(speed) << speed.error();
  std::printf(
      "%.0f simulated operations per CPU second, %.2f events each, %.1f us of virtual time each client\n",
      speed->operations_per_cpu_second, speed->events_per_operation,
      speed->virtual_seconds * 1e6 * kQuick.clients / static_cast<double>(speed->operations));
  if (!HeapCounter::available()) return;  // A sanitizer counts for itself.
  EXPECT_EQ(speed->allocations_per_operation, 0);
}

TEST(SimSpeed, TheSameSeedGivesTheSameRun) {
  const auto first = measure_sim_speed(kQuick);
  const auto second = measure_sim_speed(kQuick);
  SimSpeedOptions other = kQuick;
  other.seed = 6;
  const auto third = measure_sim_speed(other);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->trace_hash, second->trace_hash);
  EXPECT_EQ(first->virtual_seconds, second->virtual_seconds);
  EXPECT_NE(first->trace_hash, third->trace_hash);
}

}  // namespace
}  // namespace yonder::bench
