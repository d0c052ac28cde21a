#pragma once
// Latency at a given load: requests arrive at 0.8 of what the hybrid heap can serve, whoever
// serves them, and wait for those before them.
//
//   hybrid_p90_vs_object_W, hybrid_p99_vs_object_W, … _vs_paging_W   ours / theirs: less is better
//
// Concurrency: one thread (it forks). Lifetime: values.

#include <string>
#include <vector>

#include "bench/harness/benchmark.h"
#include "bench/heap/workload.h"

namespace yonder::bench::heap {

struct LatencyOptions {
  std::vector<const Workload*> workloads;
  Work work;
  int rounds = 1;
  std::string provider;
  std::string prefix;  // Of all keys.
};

// Of those among the workloads that serve requests: WS and MCD-CL, at a quarter of local memory.
Result<void> measure_latency(const LatencyOptions& options, Report& report);

}  // namespace yonder::bench::heap
