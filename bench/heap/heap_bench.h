#pragma once
// `yonder bench heap`: the far heap's three ways of bringing memory in, against each other,
// against plain pointers and against the kernel's swap, under eight workloads (workload.h).
//
//   --workload W     one workload (GPR, …) instead of all
//   --local P        one share of local memory, in percent, instead of 13, 25, 50, 75, 100
//   --rounds R       how often everything is measured; 3, or 1 with --quick
//   --set bytes=B    the working set; 1 GiB, or 64 MiB with --quick
//   --set threads=T  of each workload; 2
//   --set faults=0|1 also plain pointers on memory that is paged by faults, as under `yonder run`
//                    (hybrid_vs_faults); not with --quick unless asked
//   --set swap=0|1   against the kernel's swap too (swap_bench.h); not with --quick unless asked
//   --set latency=0|1  latency at a given load too (latency.h); not with --quick unless asked
//   --set sweep=0    only those two
//
// A working set is what the workload's far pages take when nothing ever leaves; P percent of
// that is the local memory of a run. Every run is a process of its own (run.h).

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_heap_bench(const Options& options, Report& report);

}  // namespace yonder::bench
