// The measurements run, in small, and say what they should about counts.
#include "bench/objects/heap_bench.h"

#include <gtest/gtest.h>

#include <string>

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
}

// The goal: 8 bytes and 1/64 of the payload, all metadata included.
TEST(HeapBench, CountsWhatAnObjectCosts) {
  Report report("heap");
  for (const std::uint32_t bytes : {32u, 256u, 2048u, 8192u}) {
    ASSERT_TRUE(measure_heap_overhead({.object_bytes = bytes, .objects = 5000}, report));
    const double cost = report.results().at("bytes_per_object_overhead_" + std::to_string(bytes));
    EXPECT_GT(cost, 8);
    EXPECT_LE(cost, 8 + bytes / 64.0);
  }
}

TEST(HeapBench, MeasuresPairs) {
  Report report("heap");
  ASSERT_TRUE(measure_heap_alloc({.pairs = 1000, .live = 0, .rounds = 3}, report));
  EXPECT_GT(report.results().at("alloc_free_64_of_0_ns"), 0);
}

TEST(HeapBench, MeasuresWhatAKeeperCosts) {
  Report report("heap");
  const auto measured = measure_keeper({.heap_bytes = 2 << 20, .operations = 500, .rounds = 3}, report);
  ASSERT_TRUE(measured) << measured.error();
  EXPECT_GT(report.ratio_of("journal_alloc_free_vs_plain"), 0);
  EXPECT_GT(report.ratio_of("journal_write_vs_plain_64"), 0);
  EXPECT_GT(report.results().at("adoption_ms_per_gib_64"), 0);
}

}  // namespace
}  // namespace yonder::bench
