#include "bench/heap/heap_bench.h"

#include <gtest/gtest.h>

#include "bench/heap/barrier_bench.h"
#include "bench/heap/prefetch_bench.h"

namespace yonder::bench {
namespace {

Options tiny(std::map<std::string, std::string> parameters) {
  parameters.try_emplace("bytes", "4194304");
  return {.fabric = "shm", .quick = true, .parameters = std::move(parameters)};
}

TEST(HeapBench, ComparesTheWaysMemoryComesIn) {
  Report report("heap");
  const auto ran = run_heap_bench(tiny({{"workload", "MWC"}, {"faults", "1"}}), report);
  ASSERT_TRUE(ran) << ran.error().to_string();
  EXPECT_EQ(report.results().at("wrong_objects"), 0);
  EXPECT_GT(report.ratio_of("hybrid_vs_object_MWC_25"), 0);
  EXPECT_GT(report.ratio_of("hybrid_vs_paging_MWC_25"), 0);
  EXPECT_GT(report.ratio_of("hybrid_vs_faults_MWC_25"), 0);
  EXPECT_GT(report.ratio_of("hybrid_vs_plain_MWC_100"), 0);
  EXPECT_GT(report.results().at("MWC_25_paging_page_ins"), 0);
  EXPECT_EQ(report.results().at("MWC_25_paging_object_ins"), 0);
  EXPECT_GT(report.results().at("MWC_25_object_object_ins"), 0);
}

TEST(HeapBench, RunsOverTcp) {
  Report report("heap");
  Options options = tiny({{"workload", "WS"}, {"local", "50"}});
  options.fabric = "tcp";
  const auto ran = run_heap_bench(options, report);
  ASSERT_TRUE(ran) << ran.error().to_string();
  EXPECT_EQ(report.results().at("wrong_objects"), 0);
}

TEST(HeapBench, MeasuresLatencyAtALoad) {
  Report report("heap");
  const auto ran = run_heap_bench(tiny({{"workload", "WS"}, {"sweep", "0"}, {"latency", "1"}}), report);
  ASSERT_TRUE(ran) << ran.error().to_string();
  EXPECT_GT(report.ratio_of("hybrid_p99_vs_paging_WS"), 0);
}

TEST(HeapBench, RefusesWhatItDoesNotKnow) {
  Report report("heap");
  EXPECT_EQ(run_heap_bench(tiny({{"workload", "nonsense"}}), report).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run_heap_bench(tiny({{"threads", "0"}}), report).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run_heap_bench(tiny({{"local", "101"}}), report).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(run_heap_bench(tiny({{"bytes", "many"}}), report).error(), ErrorCode::kInvalidArgument);
}

TEST(BarrierBench, MeasuresDereferencesAndEviction) {
  Report report("barrier");
  const auto ran = run_barrier_bench(tiny({{"workload", "DF"}}), report);
  ASSERT_TRUE(ran) << ran.error().to_string();
  EXPECT_GT(report.results().at("deref_ns_plain_hot_dependent"), 0);
  EXPECT_GT(report.results().at("evict_cycles_per_byte"), 0);
  EXPECT_GT(report.results().at("metadata_fraction"), 0);
  EXPECT_LT(report.ratio_of("overhead_fraction_DF"), 1);
}

TEST(PrefetchBench, ComparesScansWithTheLink) {
  Report report("prefetch");
  const auto ran = run_prefetch_bench(tiny({}), report);
  ASSERT_TRUE(ran) << ran.error().to_string();
  EXPECT_GT(report.ratio_of("shm_prefetch_vs_none"), 0);
  EXPECT_GT(report.ratio_of("shm_scan_vs_link"), 0);
}

}  // namespace
}  // namespace yonder::bench
