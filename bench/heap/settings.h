#pragma once
// What the user asked the far heap's benchmarks for with --set (heap_bench.h lists them).
//
// Concurrency and lifetime: values.

#include <vector>

#include "bench/harness/benchmark.h"
#include "bench/heap/workload.h"

namespace yonder::bench::heap {

struct Settings {
  std::vector<const Workload*> workloads;
  std::vector<unsigned> locals;
  Work work;
  int rounds = 1;
  bool sweep = true;     // All workloads on all shares of local memory…
  bool faults = false;   // …also on memory that is paged by faults…
  bool swap = false;     // …against the kernel's swap…
  bool latency = false;  // …and at a given load.

  // kInvalidArgument: a workload that does not exist, or a number that is none.
  static Result<Settings> read(const Options& options);
  void describe(Report& report) const;
};

}  // namespace yonder::bench::heap
