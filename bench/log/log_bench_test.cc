// That batching pays in the model, in the order the paper has it, and that the simulation
// is the same for the same seed.
#include "bench/log/log_bench.h"

#include <gtest/gtest.h>

namespace yonder::bench {
namespace {

TEST(LogBench, BatchesPayInTheModelAndMoreTheLargerTheyAre) {
  Report report("log");
  ASSERT_TRUE(run_log_bench({.fabric = "sim", .quick = true}, report));
  EXPECT_NE(report.to_json().find("\"simulated\": true"), std::string::npos);
  EXPECT_GE(report.ratio_of("optimised_vs_basic"), 9.1);
  EXPECT_GT(report.ratio_of("batch_32_vs_unbatched_7"), report.ratio_of("batch_4_vs_unbatched_7"));
  EXPECT_GE(report.ratio_of("numa_vs_not_7"), 1.0);
  Report again("log");
  ASSERT_TRUE(run_log_bench({.fabric = "sim", .quick = true}, again));
  EXPECT_EQ(report.ratios(), again.ratios());
}

}  // namespace
}  // namespace yonder::bench
