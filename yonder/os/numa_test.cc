#include "yonder/os/numa.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "yonder/os/mapping.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/tsc_clock.h"

namespace yonder::os {
namespace {

TEST(Numa, EveryCoreOfANodeIsOnThatNode) {
  const Numa numa = Numa::read();
  ASSERT_GE(numa.node_count(), 1u);
  std::size_t cores = 0;
  for (const int node : numa.nodes()) {
    const std::span<const int> cpus = numa.cpus_of(node).value();
    for (const int cpu : cpus) {
      EXPECT_EQ(numa.node_of(cpu).value(), node);
      ++cores;
    }
  }
  EXPECT_GE(cores, 1u);
}

TEST(Numa, UnknownNodesAndCoresAreErrors) {
  const Numa numa = Numa::read();
  EXPECT_EQ(numa.cpus_of(4095).error(), ErrorCode::kNotFound);
  EXPECT_EQ(numa.node_of(-1).error(), ErrorCode::kNotFound);
  EXPECT_EQ(numa.pin_thread_to_node(4095).error(), ErrorCode::kNotFound);
  EXPECT_EQ(Numa::pin_thread_to_cpu(CPU_SETSIZE - 1).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Numa::pin_thread_to_cpu(-1).error(), ErrorCode::kInvalidArgument);
}

TEST(Numa, APinnedThreadRunsWhereItWasPinned) {
  const Numa numa = Numa::read();
  const int node = numa.nodes()[0];
  const int cpu = numa.cpus_of(node).value().back();
  std::thread([&] {
    ASSERT_TRUE(Numa::pin_thread_to_cpu(cpu));
    EXPECT_EQ(::sched_getcpu(), cpu);
    ASSERT_TRUE(numa.pin_thread_to_node(node));
    EXPECT_EQ(numa.node_of(::sched_getcpu()).value(), node);
  }).join();
}

TEST(Numa, MemoryCanBeBoundToANode) {
  const Numa numa = Numa::read();
  const Mapping memory = Mapping::anonymous({.bytes = 4 * kPageBytes}).value();
  ASSERT_TRUE(numa.bind_memory(memory.bytes(), numa.nodes()[0]));
  memory.bytes()[0] = std::byte{1};
  EXPECT_EQ(numa.bind_memory(memory.bytes(), 4095).error(), ErrorCode::kNotFound);
  EXPECT_EQ(numa.bind_memory(memory.bytes(1, 10), numa.nodes()[0]).error(), ErrorCode::kInvalidArgument);
}

// Each reading of ours lies between two of the steady clock, so that it does not
// matter when the thread is interrupted; 2 % is far above the error of the rate.
TEST(TscClock, GoesAsFastAsTheSteadyClockAndNeverBack) {
  const TscClock clock;
  const Instant before_first = SteadyClock::read();
  const Instant first = clock.now();
  const Instant after_first = SteadyClock::read();
  Instant last = first;
  Instant before_last = after_first;
  while (before_last - after_first < std::chrono::milliseconds(20)) {
    before_last = SteadyClock::read();
    const Instant now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
  const Instant after_last = SteadyClock::read();
  EXPECT_GE((last - first) * 102 / 100, before_last - after_first);
  EXPECT_LE((last - first) * 98 / 100, after_last - before_first);
}

}  // namespace
}  // namespace yonder::os
