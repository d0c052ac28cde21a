// The join benchmark, for seconds only: that ours and the yardstick find the same, and
// that the simulated cluster is worth what the paper says.
#include "bench/join/join_bench.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/join/local_join.h"
#include "bench/join/real_join.h"
#include "bench/join/sim_join.h"

namespace yonder::bench {
namespace {

TEST(JoinBench, OursAndTheYardstickFindTheSame) {
  std::vector<Tuple> build;
  std::vector<Tuple> probe;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    build.push_back({i * 3, i});
    probe.push_back({i * 2, i * 7});
  }
  const LocalJoin local = run_local_join(build, probe, 2);
  EXPECT_EQ(local.results, 1667u) << "the multiples of 6 below 10,000";
  for (const char* const provider : {"shm", "tcp"}) {
    const auto ours = run_real_join(build, probe, {.provider = provider});
    ASSERT_TRUE(ours) << ours.error();
    EXPECT_EQ(ours->results, local.results);
    EXPECT_EQ(ours->checksum, local.checksum);
  }
}

TEST(JoinBench, TheSameSeedGivesTheSameFigure) {
  const SimJoinOptions options{.seed = 3, .executors = 4, .rows = 8000};
  const auto first = measure_sim_join(options);
  const auto second = measure_sim_join(options);
  ASSERT_TRUE(first) << first.error();
  ASSERT_TRUE(second) << second.error();
  EXPECT_EQ(*first, *second);
}

TEST(JoinBench, EightMachinesAreWorthWhatThePaperSays) {
  Report report("join");
  const auto run = run_join_bench({.fabric = "sim", .quick = true}, report);
  ASSERT_TRUE(run) << run.error();
  EXPECT_GE(report.ratio_of("optimised_vs_single"), 5.3);
  EXPECT_GT(report.ratio_of("optimised_vs_basic"), 1);
  EXPECT_GT(report.ratio_of("heavy_keys_vs_none"), 1);
}

}  // namespace
}  // namespace yonder::bench
