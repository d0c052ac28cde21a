#pragma once
// The sweep of `yonder bench heap`: every workload on every share of local memory, in rounds.
//
// Concurrency: one thread (it forks). Lifetime: a value; `report` outlives it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/harness/benchmark.h"
#include "bench/heap/run.h"

namespace yonder::bench::heap {

struct SweepOptions {
  std::vector<const Workload*> workloads;
  std::vector<unsigned> locals;  // Percent; 100 compares with plain pointers.
  Work work;
  int rounds = 1;
  bool faults = false;   // Also plain pointers on memory that is paged by faults.
  std::string provider;  // "shm" (with the model of a 100 Gb/s RDMA network), or "tcp".
  std::string prefix;    // Of all keys.
};

// The work for this workload when a benchmark was asked for `work`.
Work work_for(const Workload& workload, Work work);
// Runs with the far side that `provider` says.
Result<RunResult> measure_run(RunOptions options, const std::string& provider);

class Sweep {
 public:
  Sweep(SweepOptions options, Report& report) : options_(std::move(options)), report_(report) {}

  Result<void> run();

 private:
  using Rates = std::map<MemoryKind, std::vector<double>>;

  Result<void> run_workload(const Workload& workload);
  Result<void> run_share(const Workload& workload, unsigned percent);
  Result<RunResult> measure(const Workload& workload, MemoryKind kind, unsigned percent, bool warm = false);
  void report_run(const std::string& name, const RunResult& run);
  void report_means();

  SweepOptions options_;
  Report& report_;
  std::uint64_t working_set_bytes_ = 0;  // Of the workload under way…
  std::uint64_t checksum_ = 0;           // …and what it must come to.
  std::uint64_t wrong_objects_ = 0;
  // Logarithms of the ratios below 100 %, by baseline.
  std::map<std::string, std::vector<double>> logarithms_;
};

}  // namespace yonder::bench::heap
