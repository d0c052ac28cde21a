// The measurement runs on every path, in small, and counts what it should.
#include "bench/compaction/compaction_bench.h"

#include <gtest/gtest.h>

#include "bench/compaction/load.h"

namespace yonder::bench {
namespace {

TEST(Load, CountsOperationsAndSeesTheLongestPause) {
  int calls = 0;
  const LoadResult load = run_load(
      [&] {
        // One operation of a hundred is slow.
        const Instant end = os::SteadyClock::read() + std::chrono::milliseconds(++calls == 50 ? 20 : 0);
        while (os::SteadyClock::read() < end) {
        }
      },
      [&](Instant) { return calls == 100; });
  EXPECT_EQ(load.operations, 100u);
  EXPECT_GE(load.longest_gap_ms(), 20.0);
  EXPECT_GE(load.took, load.longest_gap);
}

TEST(CompactionBench, ReadsWhileTheMemoryIsCompacted) {
  for (const ReadPath path : {ReadPath::kEmbedded, ReadPath::kOneSided, ReadPath::kRpc}) {
    const auto round = measure_compaction(
        {.path = path, .frames = 100, .window = std::chrono::milliseconds(5), .pause = Duration(0)});
    ASSERT_TRUE(round) << round.error();
    EXPECT_GT(round->blocks_freed, 70) << "three in four are free";
    EXPECT_LE(round->blocks_freed, 77) << "and threads may have had two frames more";
    EXPECT_EQ(round->failed_reads, 0);
    EXPECT_GT(round->before_per_second, 0);
    EXPECT_GT(round->during_per_second, 0);
    EXPECT_GT(round->cpu_ms, 0);
  }
}

TEST(CompactionBench, CountsTheTimeOfTheProcessor) {
  EXPECT_GT(measure_compaction_cpu({.frames = 100}).value(), 0);
}

TEST(CompactionBench, RefusesAPauseThatIsNone) {
  Report report("compaction");
  EXPECT_EQ(run_compaction_bench({.parameters = {{"pause_us", "soon"}}}, report).error(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace yonder::bench
