// What figure 8 of the CoRM paper shows, in small: who waits, and who loses connections.
#include "bench/compaction/remap_bench.h"

#include <gtest/gtest.h>

#include "bench/compaction/compaction_bench.h"

namespace yonder::bench {
namespace {

RemapRound measure(node::NicMapping mapping, node::Remap remap = node::Remap::kMmap) {
  const auto round = measure_remap({.remap = remap, .mapping = mapping, .frames = 40, .seed = 3});
  EXPECT_TRUE(round) << round.error();
  return round.value_or(RemapRound());
}

TEST(RemapBench, ATableNeedsNoNicToBeTold) {
  const RemapRound table = measure(node::NicMapping::kAuto, node::Remap::kTable);
  EXPECT_EQ(table.connections_broken, 0);
  EXPECT_EQ(table.tell_us, 0);
  EXPECT_EQ(table.failed_reads, 0);
}

TEST(RemapBench, PrefetchTakesItsTimeAtTheNodeAndSparesTheReader) {
  const RemapRound prefetch = measure(node::NicMapping::kOdpPrefetch);
  EXPECT_NEAR(prefetch.tell_us, 4.5, 0.1);
  EXPECT_NEAR(prefetch.first_read_us, prefetch.next_read_us, 1);
  EXPECT_EQ(prefetch.connections_broken, 0);
  EXPECT_EQ(prefetch.failed_reads, 0);
}

TEST(RemapBench, OnDemandPagingMakesTheFirstReaderWait) {
  const RemapRound odp = measure(node::NicMapping::kOdp);
  EXPECT_EQ(odp.tell_us, 0);
  EXPECT_NEAR(odp.first_read_us - odp.next_read_us, 63, 1);
  EXPECT_EQ(odp.connections_broken, 0);
  EXPECT_EQ(odp.failed_reads, 0);
}

TEST(RemapBench, ReregistrationBreaksConnections) {
  const RemapRound rereg = measure(node::NicMapping::kRereg);
  EXPECT_NEAR(rereg.tell_us, 9, 0.1);
  EXPECT_GT(rereg.connections_broken, 0);
  EXPECT_GT(rereg.max_us_during, 1000) << "they come back in milliseconds";
  EXPECT_EQ(rereg.failed_reads, 0) << "within their deadlines";
}

TEST(RemapBench, IsTheSameForTheSameSeed) {
  const RemapRound one = measure(node::NicMapping::kRereg);
  const RemapRound other = measure(node::NicMapping::kRereg);
  EXPECT_EQ(one.during_per_second, other.during_per_second);
  EXPECT_EQ(one.connections_broken, other.connections_broken);
  EXPECT_EQ(one.p99_us_during, other.p99_us_during);
}

TEST(RemapBench, IsTheCompactionBenchOnSimulatedHardware) {
  Report report("compaction");
  ASSERT_TRUE(run_compaction_bench({.fabric = "sim", .quick = true}, report));
  EXPECT_NE(report.to_json().find("\"simulated\": true"), std::string::npos);
  EXPECT_TRUE(report.results().contains("connections_broken_rereg"));
  EXPECT_TRUE(report.ratios().contains("read_during_vs_before_odp"));
}

}  // namespace
}  // namespace yonder::bench
