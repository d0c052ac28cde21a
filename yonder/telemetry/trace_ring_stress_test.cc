#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "yonder/telemetry/trace_ring.h"

namespace yonder::telemetry {
namespace {

TEST(TraceRingStress, ADumpDuringWritingShowsWholeEventsInOrder) {
  TraceRing ring(64);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t n = 0; !stop.load(std::memory_order_relaxed); ++n)
      ring.record(Instant::from_ns(static_cast<std::int64_t>(n)), static_cast<TraceEventId>(n), ~n, n * 3);
  });
  std::uint64_t seen = 0;
  for (int dumps = 0; dumps < 100'000 || seen == 0; ++dumps) {
    std::uint64_t next = 0;
    ring.for_each([&](const TraceEvent& event) {
      const std::uint64_t n = event.position;
      ASSERT_GE(n, next);
      ASSERT_EQ(event.id, static_cast<TraceEventId>(n));
      ASSERT_EQ(event.time.ns(), static_cast<std::int64_t>(n));
      ASSERT_EQ(event.a, ~n);
      ASSERT_EQ(event.b, n * 3);
      next = n + 1;
      ++seen;
    });
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace yonder::telemetry
