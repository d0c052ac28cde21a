// That each benchmark runs, says the same twice where it is simulated, and has the keys
// that others compare.
#include <gtest/gtest.h>

#include "bench/remote/access_pattern_bench.h"
#include "bench/remote/atomics_bench.h"
#include "bench/remote/consolidation_bench.h"
#include "bench/remote/numa_bench.h"
#include "bench/remote/vector_io_bench.h"

namespace yonder::bench {
namespace {

struct Case {
  const char* name;
  Result<void> (*run)(const Options&, Report&);
  std::vector<const char*> ratios;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

class RemoteBench : public ::testing::TestWithParam<Case> {};

TEST_P(RemoteBench, IsDeterministicInVirtualTime) {
  Report first("first");
  Report second("second");
  const Options options{.fabric = "sim", .quick = true, .seed = 7};
  ASSERT_TRUE(GetParam().run(options, first));
  ASSERT_TRUE(GetParam().run(options, second));
  EXPECT_EQ(first.ratios(), second.ratios());
  EXPECT_EQ(first.results(), second.results());
  for (const char* key : GetParam().ratios) EXPECT_TRUE(first.ratios().contains(key)) << key;
}

TEST_P(RemoteBench, RunsOnWhatIsHere) {
  for (const char* provider : {"shm", "tcp"}) {
    Report report(GetParam().name);
    const auto done = GetParam().run({.fabric = provider, .quick = true}, report);
    ASSERT_TRUE(done) << provider << ": " << done.error();
    EXPECT_FALSE(report.ratios().empty());
    for (const auto& [key, value] : report.ratios()) EXPECT_GT(value, 0) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RemoteBench,
    ::testing::Values(Case{"vector", &run_vector_io_bench, {"sp_vs_sgl", "sp_vs_doorbell", "auto_vs_single"}},
                      Case{"pattern", &run_access_pattern_bench, {"seq_vs_random_write"}},
                      Case{"consolidation", &run_consolidation_bench, {"consolidated_vs_native_theta16"}},
                      Case{"numa", &run_numa_bench, {"worst_vs_best_latency", "worst_vs_best_tput"}},
                      Case{"atomics",
                           &run_atomics_bench,
                           {"backoff_lock_vs_local", "backoff_lock_vs_rpc", "sequencer_vs_rpc"}}),
    case_name);

TEST(LocalLock, HasTheRatesOfThePaper) {
  EXPECT_NEAR(local_lock_mops(8), 0.33, 0.01);
  EXPECT_NEAR(local_lock_mops(14) / local_lock_mops(1), 0.012, 0.0005);
}

}  // namespace
}  // namespace yonder::bench
