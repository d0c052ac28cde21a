#include "bench/fabric/shm_bench.h"

#include <gtest/gtest.h>

#include "bench/harness/heap_counter.h"

namespace yonder::bench {
namespace {

TEST(ShmBench, MeasuresReadsWithoutAllocating) {
  const ShmReadOptions small{.memory_bytes = std::size_t{4} << 20, .rounds = 3, .reads_per_round = 1024};
  ShmReadOptions batch = small;
  batch.size = 1024;
  batch.batch = 16;
  const auto results = measure_shm_reads(std::vector<ShmReadOptions>{small, batch});
  ASSERT_TRUE(results) << results.error();
  for (const ShmReadResult& result : *results) {
    EXPECT_GT(result.ours_ns, 0);
    EXPECT_EQ(result.ratios.size(), 3u);
    if (HeapCounter::available()) {
      EXPECT_EQ(result.allocations_per_read, 0);
    }
  }
}

TEST(ShmBench, MeasuresMessages) {
  for (const bool shared : {false, true}) {
    const auto result =
        measure_shm_messages({.rounds = 1, .trips_per_round = 200, .shared_receive_queue = shared});
    ASSERT_TRUE(result) << result.error();
    EXPECT_GT(result->ours_ns, 0);
  }
}

}  // namespace
}  // namespace yonder::bench
