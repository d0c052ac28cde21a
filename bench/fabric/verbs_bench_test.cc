#include "bench/fabric/verbs_bench.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "bench/harness/report.h"

namespace yonder::bench {
namespace {

// YONDER_BENCH_ROUNDS and YONDER_BENCH_READS make it a measurement.
std::uint32_t from_environment(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::atoi(text));
}

TEST(VerbsBench, MeasuresBothSidesOfTheRatio) {
  const auto measured = measure_verbs_latency({.reads = from_environment("YONDER_BENCH_READS", 200),
                                               .rounds = from_environment("YONDER_BENCH_ROUNDS", 2)});
  if (!measured && measured.error() == ErrorCode::kProviderUnavailable) {
    GTEST_SKIP() << measured.error();
  }
  ASSERT_TRUE(measured) << measured.error();
  EXPECT_GT(median(measured->ours_us), 0);
  EXPECT_GT(median(measured->perftest_us), 0);
  std::printf("64 B read: ours %.1f us, ib_read_lat %.1f us, ratio %.3f (p25 %.3f, p75 %.3f)\n",
              median(measured->ours_us), median(measured->perftest_us), median(measured->ratios),
              quantile(measured->ratios, 0.25), quantile(measured->ratios, 0.75));
}

}  // namespace
}  // namespace yonder::bench
