// Runs the benchmark of the tcp provider for a moment: that it measures, not what.
#include "bench/fabric/tcp_bench.h"

#include <gtest/gtest.h>

namespace yonder::bench {
namespace {

TEST(TcpBench, MeasuresEveryRoundAndAllocatesNothingPerOperation) {
  const auto result = run_tcp_bench({.rounds = 2, .operations = 200, .throughput_factor = 20});
  ASSERT_TRUE(result) << result.error();
  EXPECT_EQ(result->latency_ratios.size(), 2u);
  EXPECT_EQ(result->throughput_ratios.size(), 2u);
  EXPECT_GT(result->ours_p50_ns, 0);
  EXPECT_GT(result->raw_ops_per_s, 0);
  EXPECT_LE(result->allocations_per_operation, 0);
}

}  // namespace
}  // namespace yonder::bench
