#pragma once
// `yonder bench shuffle`: entries packed (SP) and gathered (SGL) in batches against one
// write per entry; simulated on the cluster of paper 002, and over shm and tcp here.
//
// Ratios of throughputs (more is better), of the simulation without a prefix:
//   optimised_vs_basic       the better of SP and SGL in batches of 16 against basic, all
//                            executors placed well (the paper's 5.8)
//   optimised_vs_basic_without_numa   … against basic, placed without regard to sockets
//   sp_vs_basic_N, sgl_vs_basic_N   batches of N, same placement as basic
//   numa_vs_not              NUMA placement alone, basic
//   shm_sp_vs_basic, tcp_sp_vs_basic   real
//
// Concurrency: the caller's thread, and one per executor where time is real.

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

Result<void> run_shuffle_bench(const Options& options, Report& report);

}  // namespace yonder::bench
