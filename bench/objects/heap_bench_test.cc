// The measurements run, in small, and say what they should about counts.
#include "bench/objects/heap_bench.h"

#include <gtest/gtest.h>

namespace yonder::bench {
namespace {

TEST(HeapBench, MeasuresReadsAgainstMemcpy) {
  Report report("heap");
  ASSERT_TRUE(measure_heap_reads({.heap_bytes = 1 << 20, .reads = 1000, .rounds = 3}, report));
  EXPECT_GT(report.ratio_of("read_64_against_memcpy"), 0);
}

TEST(HeapBench, MeasuresAllocation) {
  Report report("heap");
  ASSERT_TRUE(measure_heap_alloc({.pairs = 1000, .live = 10, .rounds = 3}, report));
  EXPECT_GT(report.results().at("alloc_free_64_of_10_ns"), 0);
}

TEST(HeapBench, MergesFrames) {
  Report report("heap");
  ASSERT_TRUE(measure_heap_merge({.frames = 100, .rounds = 1}, report));
  EXPECT_GT(report.results().at("merge_100_frames_freed"), 50);
}

TEST(HeapBench, PacksWithinTwoPercentOfTheIdeal) {
  Report report("heap");
  ASSERT_TRUE(measure_heap_packing({.objects = 50'000}, report));
  EXPECT_LE(report.ratio_of("packing_32_freed_40_against_ideal"), 1.02);
  EXPECT_LT(report.results().at("packing_32_freed_40_overhead_bytes"), 12);
}

}  // namespace
}  // namespace yonder::bench
