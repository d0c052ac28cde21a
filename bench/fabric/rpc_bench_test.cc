// The rpc benchmark, for a second only: that it measures, and that calls allocate
// nothing. How fast they are is for the report, not for a test.
#include "bench/fabric/rpc_bench.h"

#include <gtest/gtest.h>

#include "bench/harness/heap_counter.h"

namespace yonder::bench {
namespace {

TEST(RpcBench, CallsOverShmAllocateNothingInTheSteadyState) {
  const auto bench = measure_rpc({.rounds = 2, .calls = 1000});
  if (!bench && bench.error() == ErrorCode::kUnsupported) GTEST_SKIP() << bench.error();
  ASSERT_TRUE(bench) << bench.error();
  EXPECT_EQ(bench->rounds.size(), 2u);
  EXPECT_GT(bench->rpc_ns, 0);
  EXPECT_GT(bench->ratio, 0);
  if (!HeapCounter::available()) return;  // A sanitizer counts for itself.
  EXPECT_LT(bench->allocations_per_call, 0.01);
}

TEST(RpcBench, RefusesWhatItCannotMeasure) {
  EXPECT_FALSE(measure_rpc({.rounds = 0}));
  EXPECT_FALSE(measure_rpc({.rounds = 1, .calls = 1, .payload_bytes = 7}));
}

}  // namespace
}  // namespace yonder::bench
