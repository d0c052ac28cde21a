// What every plan must be, for random clusters: few moves that pay, and an end.

#include "yonder/cache/balance_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "yonder/base/prng.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::cache {
namespace {

using segment::ProcessId;

double busiest(const std::vector<ProcessId>& servers, const std::vector<PartitionLoad>& partitions) {
  std::map<ProcessId, double> loads;
  for (const PartitionLoad& partition : partitions) loads[partition.owner] += partition.load;
  double most = 0;
  for (const ProcessId server : servers) most = std::max(most, loads[server]);
  return most;
}

TEST(BalancePlanModel, EveryPlanPaysAndTheyComeToAnEnd) {
  Prng prng(testing::test_seed());
  for (int round = 0; round < testing::scaled(400); ++round) {
    std::vector<ProcessId> servers;
    for (std::uint64_t i = 0; i < 1 + prng.below(6); ++i) servers.emplace_back(i + 1);
    std::vector<PartitionLoad> partitions;
    for (std::uint32_t i = 0; i < 128; ++i) {
      // Skewed, as loads are. Memory in proportion, so that load alone can be checked.
      const double load = 1000.0 / static_cast<double>(1 + prng.below(100));
      partitions.push_back({.partition = i,
                            .owner = servers[prng.below(servers.size())],
                            .load = load,
                            .bytes = static_cast<std::uint64_t>(load * 1e6)});
    }
    std::set<std::uint32_t> moved;
    bool ended = false;
    for (int plan = 0; plan < 64 && !ended; ++plan) {
      const double before = busiest(servers, partitions);
      const std::vector<PlannedMove> moves = plan_moves(servers, partitions, {});
      ASSERT_LE(moves.size(), 4u);
      for (const PlannedMove& move : moves) {
        PartitionLoad& partition = partitions[move.partition];
        ASSERT_EQ(partition.owner, move.from);
        ASSERT_NE(move.from, move.to);
        ASSERT_NE(std::find(servers.begin(), servers.end(), move.to), servers.end());
        partition.owner = move.to;
      }
      ended = moves.empty();  // B1
      ASSERT_LE(busiest(servers, partitions), before * 1.0001);
    }
    ASSERT_TRUE(ended);
  }
}

TEST(BalancePlan, MovesNothingThatIsBalanced) {
  const std::vector<ProcessId> servers = {ProcessId(1), ProcessId(2)};
  std::vector<PartitionLoad> partitions;
  for (std::uint32_t i = 0; i < 10; ++i)
    partitions.push_back({.partition = i, .owner = servers[i % 2], .load = 100, .bytes = 100});
  EXPECT_TRUE(plan_moves(servers, partitions, {}).empty());
}

TEST(BalancePlan, FillsANewServer) {
  const std::vector<ProcessId> servers = {ProcessId(1), ProcessId(2)};
  std::vector<PartitionLoad> partitions;
  for (std::uint32_t i = 0; i < 8; ++i)
    partitions.push_back({.partition = i, .owner = servers[0], .load = 100, .bytes = 100});
  EXPECT_EQ(plan_moves(servers, partitions, {}).size(), 4u);
}

TEST(BalancePlan, DoesNotMoveTheOnePartitionThatIsHot) {
  const std::vector<ProcessId> servers = {ProcessId(1), ProcessId(2)};
  // Wherever it goes its server is the busiest.
  const std::vector<PartitionLoad> partitions = {{.partition = 0, .owner = servers[0], .load = 1000},
                                                 {.partition = 1, .owner = servers[1], .load = 1}};
  EXPECT_TRUE(plan_moves(servers, partitions, {}).empty());
}

TEST(BalancePlan, NeedsTwoServers) {
  EXPECT_TRUE(plan_moves({ProcessId(1)}, {{.partition = 0, .owner = ProcessId(1), .load = 1}}, {}).empty());
  EXPECT_TRUE(plan_moves({}, {}, {}).empty());
}

}  // namespace
}  // namespace yonder::cache
