#pragma once
// The far heap against the kernel's swap on a device in RAM: the same program, once on far
// pointers and once on plain ones in a process that may keep a quarter of it in memory.
//
//   hybrid_vs_swap_W    MCD-CL and GPR; hybrid_vs_swap is their geometric mean
//   swap_unsupported    1 (a result): this machine or this user cannot make a swap device
//   swap_run_failed_W   1 (a result): the kernel killed the process instead of making room
//
// Concurrency: one thread (it forks). Lifetime: values.

#include <vector>

#include "bench/harness/benchmark.h"
#include "bench/heap/workload.h"

namespace yonder::bench::heap {

struct SwapBenchOptions {
  std::vector<const Workload*> workloads;
  Work work;
  int rounds = 1;
};

Result<void> measure_swap(const SwapBenchOptions& options, Report& report);

}  // namespace yonder::bench::heap
