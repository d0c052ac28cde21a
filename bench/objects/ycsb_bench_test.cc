#include "bench/objects/ycsb_bench.h"

#include <gtest/gtest.h>

namespace yonder::bench {
namespace {

TEST(YcsbBench, RunsEveryWorkload) {
  for (const char workload : {'A', 'B', 'C', 'D', 'E', 'F'}) {
    Report report("ycsb");
    const auto measured = measure_ycsb(
        {.workload = workload, .records = 500, .clients = 2, .operations = 100, .rounds = 2}, report);
    ASSERT_TRUE(measured) << workload << ": " << measured.error();
    EXPECT_GT(report.ratio_of(std::string(1, workload)), 0);
    EXPECT_EQ(report.results().contains("failed_direct_reads_fraction"), workload == 'A');
  }
}

TEST(YcsbBench, RunsOverTcp) {
  Report report("ycsb");
  const auto measured = measure_ycsb(
      {.workload = 'A', .provider = "tcp", .records = 500, .clients = 2, .operations = 50, .rounds = 2},
      report);
  ASSERT_TRUE(measured) << measured.error();
}

}  // namespace
}  // namespace yonder::bench
