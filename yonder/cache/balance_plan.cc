#include "yonder/cache/balance_plan.h"

#include <algorithm>
#include <map>

namespace yonder::cache {

namespace {

using segment::ProcessId;

struct Share {
  PartitionLoad partition;
  double weight = 0;  // of the whole cluster's: the larger of load and memory
  bool moved = false;
};

// Load and memory as parts of their totals; half of each, so that a partition without
// lookups still has its memory's weight.
std::vector<Share> weigh(const std::vector<PartitionLoad>& partitions) {
  double load = 0;
  double bytes = 0;
  for (const PartitionLoad& partition : partitions) {
    load += partition.load;
    bytes += static_cast<double>(partition.bytes);
  }
  std::vector<Share> shares;
  for (const PartitionLoad& partition : partitions) {
    const double by_load = load > 0 ? partition.load / load : 0;
    const double by_bytes = bytes > 0 ? static_cast<double>(partition.bytes) / bytes : 0;
    shares.push_back({.partition = partition, .weight = 0.75 * by_load + 0.25 * by_bytes});
  }
  return shares;
}

// The partition of `from` whose move to `to` makes the two most alike; null if none gains enough.
Share* best_move(std::vector<Share>& shares, ProcessId from, double gap, double least_gain) {
  Share* best = nullptr;
  double best_gain = least_gain;
  for (Share& share : shares) {
    if (share.partition.owner != from || share.moved) continue;
    // After the move the larger of the two is lower by this much.
    const double gain = std::min(share.weight, gap - share.weight);
    if (gain >= best_gain) {
      best_gain = gain;
      best = &share;
    }
  }
  return best;
}

}  // namespace

std::vector<PlannedMove> plan_moves(const std::vector<ProcessId>& servers,
                                    const std::vector<PartitionLoad>& partitions,
                                    const PlanOptions& options) {
  std::vector<PlannedMove> moves;
  if (servers.size() < 2) return moves;
  std::vector<Share> shares = weigh(partitions);
  std::map<ProcessId, double> weights;
  for (const ProcessId server : servers) weights[server] = 0;
  for (const Share& share : shares) {
    if (const auto found = weights.find(share.partition.owner); found != weights.end())
      found->second += share.weight;
  }
  const double average = 1.0 / static_cast<double>(servers.size());
  const auto lighter = [](const auto& a, const auto& b) { return a.second < b.second; };
  while (moves.size() < options.max_moves) {
    const auto busiest = std::max_element(weights.begin(), weights.end(), lighter);
    const auto idlest = std::min_element(weights.begin(), weights.end(), lighter);
    if (busiest->second <= average * (1 + options.tolerance)) break;
    Share* share =
        best_move(shares, busiest->first, busiest->second - idlest->second, options.least_gain * average);
    if (share == nullptr) break;
    moves.push_back({share->partition.partition, busiest->first, idlest->first});
    share->moved = true;
    share->partition.owner = idlest->first;
    busiest->second -= share->weight;
    idlest->second += share->weight;
  }
  return moves;
}

}  // namespace yonder::cache
