#pragma once
// `yonder bench join`: the distributed join against a single machine and against itself
// without its optimisations, simulated on the cluster of paper 002; and against an
// in-process oneTBB join, here.
//
// Simulated (ratios of speeds, more is better):
//   optimised_vs_single      16 executors on 8 machines, batched, placed, against one
//                            machine with two executors (the paper's 5.3)
//   optimised_vs_basic       … against one write per row, placed without regard to sockets
//                            (the paper's 10.3)
//   numa_vs_not              placement alone
//   skewed_vs_uniform        probe keys of Zipf 0.99 against uniform ones (1: skew is free)
//   heavy_keys_vs_none       Zipf 0.99, with and without the search for heavy keys
// Real:
//   join_vs_local            time of ours / time of the oneTBB join (less is better)
//
// Concurrency: the caller's thread, and one per executor where time is real.

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

Result<void> run_join_bench(const Options& options, Report& report);

}  // namespace yonder::bench
