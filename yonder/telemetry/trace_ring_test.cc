#include "yonder/telemetry/trace_ring.h"

#include <gtest/gtest.h>

#include <vector>

namespace yonder::telemetry {
namespace {

std::vector<TraceEvent> all_of(const TraceRing& ring) {
  std::vector<TraceEvent> events;
  ring.for_each([&](const TraceEvent& event) { events.push_back(event); });
  return events;
}

TEST(TraceRing, KeepsWhatWasRecorded) {
  TraceRing ring(4);
  EXPECT_TRUE(all_of(ring).empty());
  ring.record(Instant::from_ns(5), 65535, 7, ~std::uint64_t{0});
  const auto events = all_of(ring);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].position, 0u);
  EXPECT_EQ(events[0].time.ns(), 5);
  EXPECT_EQ(events[0].id, 65535);
  EXPECT_EQ(events[0].a, 7u);
  EXPECT_EQ(events[0].b, ~std::uint64_t{0});
}

TEST(TraceRing, OverwritesTheOldest) {
  TraceRing ring(4);
  for (std::uint64_t i = 0; i < 10; ++i) ring.record(Instant::from_ns(1), 1, i);
  const auto events = all_of(ring);
  ASSERT_EQ(events.size(), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(events[i].a, 6 + i);
  EXPECT_EQ(ring.recorded(), 10u);
  EXPECT_FALSE(ring.read(5).has_value());
  EXPECT_FALSE(ring.read(10).has_value());
}

TEST(TraceRing, TakesPowersOfTwoOnly) { EXPECT_DEATH(TraceRing(3), "power of two"); }

}  // namespace
}  // namespace yonder::telemetry
