#include "bench/objects/objects_bench.h"

#include <gtest/gtest.h>

namespace yonder::bench {
namespace {

const DirectReadOptions kSmall{
    .object_bytes = 64, .heap_bytes = std::uint64_t{2} << 20, .reads = 2000, .rounds = 3};

TEST(ObjectsBench, MeasuresReadsOverSharedMemory) {
  Report report("objects");
  const auto measured = measure_direct_reads(kSmall, report);
  ASSERT_TRUE(measured) << measured.error();
  EXPECT_GT(report.ratio_of("direct_read_vs_memcpy_64"), 0);
  EXPECT_GT(report.ratio_of("direct_read_batch16_vs_memcpy_64"), 0);
  EXPECT_GT(report.results().at("direct_read_near_share_64"), 0.5) << "not by loads";
}

TEST(ObjectsBench, MeasuresReadsOverTcp) {
  Report report("objects");
  DirectReadOptions options = kSmall;
  options.reads = 100;
  const auto measured = measure_against_raw(options, report);
  ASSERT_TRUE(measured) << measured.error();
  EXPECT_GT(report.ratio_of("direct_read_vs_raw_64"), 0);
}

TEST(ObjectsBench, MeasuresAgainstRequests) {
  Report report("objects");
  DirectReadOptions options = kSmall;
  options.heap_bytes = 3 << 20;
  const auto measured = measure_against_rpc(options, report);
  ASSERT_TRUE(measured) << measured.error();
  EXPECT_GT(report.ratio_of("direct_read_vs_rpc_3mib"), 0);
}

TEST(ObjectsBench, MeasuresCorrections) {
  Report report("objects");
  const auto measured = measure_corrections({.objects = 8000, .reads = 200, .rounds = 3}, report);
  ASSERT_TRUE(measured) << measured.error();
  EXPECT_GT(report.ratio_of("indirect_rpc_vs_direct_rpc"), 0);
  for (const std::string by : {"scan", "index", "owner"}) {
    EXPECT_GT(report.ratio_of("indirect_rpc_vs_direct_rpc_" + by), 0) << by;
  }
  for (const std::string by : {"scan", "index", "owner", "owner_serving"}) {
    EXPECT_GT(report.ratio_of("indirect_vs_direct_" + by), 0) << by;
    EXPECT_TRUE(report.results().contains("correction_ns_" + by)) << by;
  }
  EXPECT_GT(report.ratio_of("scan_vs_rpc_correction"), 0);
  EXPECT_GT(report.results().at("displaced_objects"), 0);
}

}  // namespace
}  // namespace yonder::bench
