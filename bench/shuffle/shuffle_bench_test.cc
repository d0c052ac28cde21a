// The shuffle benchmark, for seconds only: that it works, repeats itself in virtual time,
// and that batching is worth what the paper says.
#include "bench/shuffle/shuffle_bench.h"

#include <gtest/gtest.h>

#include "bench/shuffle/real_shuffle.h"
#include "bench/shuffle/sim_shuffle.h"

namespace yonder::bench {
namespace {

TEST(ShuffleBench, TheSameSeedGivesTheSameFigure) {
  const SimShuffleOptions options{.seed = 3, .executors = 4, .entries = 1000};
  const auto first = measure_sim_shuffle(options);
  const auto second = measure_sim_shuffle(options);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
}

TEST(ShuffleBench, BatchingIsWorthWhatThePaperSays) {
  Report report("shuffle");
  const auto run = run_shuffle_bench({.fabric = "sim", .quick = true}, report);
  ASSERT_TRUE(run) << run.error();
  EXPECT_GE(report.ratio_of("optimised_vs_basic"), 5.8);
  EXPECT_GT(report.ratio_of("sp_vs_basic_16"), report.ratio_of("sp_vs_basic_4"));
  EXPECT_GT(report.ratio_of("numa_vs_not"), 1);
}

TEST(ShuffleBench, RunsOnRealProviders) {
  for (const char* const provider : {"shm", "tcp"}) {
    const auto rate = measure_real_shuffle({.provider = provider, .entries = 2000});
    ASSERT_TRUE(rate) << rate.error();
    EXPECT_GT(*rate, 0);
  }
}

}  // namespace
}  // namespace yonder::bench
