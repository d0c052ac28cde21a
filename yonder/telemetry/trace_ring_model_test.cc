// The real ring under the seeded scheduler with modelled store buffers: a reader
// never sees an event whose words are of two writes.
#include <gtest/gtest.h>

#include "yonder/telemetry/trace_ring.h"
#include "yonder/testing/deterministic_scheduler.h"
#include "yonder/testing/seed.h"
#include "yonder/testing/weak_atomics.h"

namespace yonder::telemetry {
namespace {

using testing::DeterministicScheduler;
using testing::SimAtomics;
using testing::test_seed;
using testing::WeakAtomics;

struct Outcome {
  int seen = 0;
  int torn = 0;
};

// Event n has all its fields made from n.
template <typename Atomics>
Outcome run(std::uint64_t seed) {
  Outcome outcome;
  BasicTraceRing<Atomics> ring(2);
  DeterministicScheduler(seed).run({[&] {
                                      for (std::uint64_t n = 0; n < 8; ++n)
                                        ring.record(Instant::from_ns(static_cast<std::int64_t>(n)),
                                                    static_cast<TraceEventId>(n), n * 10, n * 100);
                                    },
                                    [&] {
                                      while (ring.recorded() < 8) {
                                        ring.for_each([&](const TraceEvent& event) {
                                          const std::uint64_t n = event.position;
                                          const bool whole = event.id == n && event.a == n * 10 &&
                                                             event.b == n * 100 &&
                                                             event.time.ns() == static_cast<std::int64_t>(n);
                                          ++(whole ? outcome.seen : outcome.torn);
                                        });
                                      }
                                    }});
  return outcome;
}

template <typename Atomics>
Outcome run_many() {
  Outcome total;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Outcome one = run<Atomics>(test_seed() + i);
    total.seen += one.seen;
    total.torn += one.torn;
  }
  return total;
}

TEST(TraceRingModel, ReadersSeeWholeEventsOnly) {
  const Outcome outcome = run_many<SimAtomics>();
  EXPECT_GT(outcome.seen, 500);
  EXPECT_EQ(outcome.torn, 0);
}

TEST(TraceRingModel, MissingReleasesAreFound) { EXPECT_GT(run_many<WeakAtomics>().torn, 0); }

}  // namespace
}  // namespace yonder::telemetry
