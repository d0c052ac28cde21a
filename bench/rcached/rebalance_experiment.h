#pragma once
// The load-balancing experiment of paper 004 (Figure 5): four servers, 128 partitions, the
// first server with more than its share; two of its partitions move to the least loaded
// server while clients go on; then, beyond the paper, a server is drained.
//
// The paper had a machine for each server. Here all share the processors, and a hot server would have
// what the others leave: so the threads that serve have a quarter of a core each (cpu_quota.h;
// `--set serving_percent=P`, 0: as much as they get), where that can be had (rebalance_serving_share).
//
// Results:
//   failed_requests                 replies that are errors, broken connections (must be 0)
//   lost_values                     values missing, stale or of another key (must be 0)
//   rebalance_window_p99_us         p99 of a 100 ms window before the moves, median
//   rebalance_worst_p99_us_PHASE    the worst window of a phase: before, move, after, drain
//   rebalance_hot_mean_us_PHASE     mean latency of the hot server: before, after
//   rebalance_move_ms               from the order until both partitions are served elsewhere
//   rebalance_local_ms              … and all their bytes are there
//   rebalance_drain_ms              from the order until the server owns nothing
//   rebalance_requests_per_s_PHASE  before, after
// Ratios (less is better):
//   worst_window_vs_normal_PHASE    the worst window against the median one of before; that of
//                                   `before` and `after` is what the machine does by itself
//   hot_mean_after_vs_before        of the mean latency of the server that gave two partitions away
//
// Concurrency: the caller's thread, and one for the load.

#include <string>

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

// Errors: kNotFound (no rcached), kCorrupt (the cluster refuses), those of sockets.
Result<void> run_rebalance_experiment(const std::string& rcached, const Options& options, Report& report);

}  // namespace yonder::bench
