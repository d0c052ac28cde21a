#include "bench/fabric/verbs_bench.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "bench/harness/report.h"

namespace yonder::bench {
namespace {

TEST(VerbsBench, MeasuresBothSidesOfTheRatio) {
  for (const int pause_us : {0, 3}) {
    const auto measured =
        measure_verbs_latency({.reads = 200, .rounds = 2, .pause = std::chrono::microseconds(pause_us)});
    if (!measured && measured.error() == ErrorCode::kProviderUnavailable) {
      GTEST_SKIP() << measured.error();
    }
    ASSERT_TRUE(measured) << measured.error();
    EXPECT_EQ(measured->ratios.size(), 2U);
    EXPECT_GT(median(measured->ours_us), 0);
    EXPECT_GT(median(measured->perftest_us), 0);
    std::printf("64 B read, pause %d us: ours %.1f us, ib_read_lat %.1f us, ratio %.3f\n", pause_us,
                median(measured->ours_us), median(measured->perftest_us), measured->ratio());
  }
}

}  // namespace
}  // namespace yonder::bench
