#include "bench/heap/offload_bench.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "yonder/testing/effort.h"

namespace yonder::bench {
namespace {

TEST(OffloadBench, ComparesFetchingWithGoingThere) {
  Report report("offload");
  const std::string bytes = std::to_string(::yonder::testing::test_effort() * (8 << 20));
  const auto ran = run_offload_bench(
      {.fabric = "shm", .quick = true, .parameters = {{"bytes", bytes}, {"programs", PROGRAMS}}}, report);
  ASSERT_TRUE(ran) << ran.error().to_string();
  EXPECT_EQ(report.results().at("wrong_objects"), 0) << "the two ways must come to the same";
  EXPECT_GT(report.ratio_of("offload_vs_fetch_df"), 0);
  EXPECT_GT(report.ratio_of("offload_vs_fetch_ws"), 0);
  EXPECT_GT(report.results().at("call_us"), 0);
  fmt::print("{}\n", report.to_json());
}

TEST(OffloadBench, SaysWhatIsMissing) {
  Report report("offload");
  EXPECT_FALSE(run_offload_bench(
      {.fabric = "shm", .quick = true, .parameters = {{"bytes", "8388608"}, {"programs", "/nowhere"}}},
      report));
}

}  // namespace
}  // namespace yonder::bench
