#pragma once
// plan_moves(): which partitions should move so that no server has much more to do than
// the others. A pure function, so that what it would do can be shown first.
//
// Few moves, each of which pays: a partition goes from the busiest server to the idlest
// one if that lowers the larger of their two loads by at least `least_gain` of the average
// load. The same loads therefore give no further moves once they are balanced (B1), and no
// plan moves a partition twice (B2). Memory counts like load: what is nearest to its limit
// decides.
//
// Concurrency: pure.

#include <cstdint>
#include <vector>

#include "yonder/segment/ids.h"

namespace yonder::cache {

struct PartitionLoad {
  std::uint32_t partition = 0;
  segment::ProcessId owner;
  double load = 0;          // lookups per second, or any other measure
  std::uint64_t bytes = 0;  // memory of its items
};

struct PlannedMove {
  std::uint32_t partition = 0;
  segment::ProcessId from;
  segment::ProcessId to;
  std::uint64_t bytes = 0;  // what it holds, all of which will travel
  friend bool operator==(const PlannedMove&, const PlannedMove&) = default;
};

struct PlanOptions {
  std::uint32_t max_moves = 4;
  // No move unless the busiest server has so much more than the average.
  double tolerance = 0.2;
  // Of the average load of a server: what a move must gain.
  double least_gain = 0.05;
};

// `servers`: all that may own partitions, also those that own none.
std::vector<PlannedMove> plan_moves(const std::vector<segment::ProcessId>& servers,
                                    const std::vector<PartitionLoad>& partitions, const PlanOptions& options);

}  // namespace yonder::cache
