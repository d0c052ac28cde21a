#pragma once
// One run of one workload on one memory, in a process of its own: a fresh heap, a fresh malloc,
// and nothing left behind for the next run.
//
//   YONDER_TRY(run, run_in_child({.workload = *find_workload("GPR"), .memory = MemoryKind::kHybrid,
//                                 .local_bytes = Bytes(64_MiB), .work = {.bytes = 256_MiB}}));
//
// Concurrency: one thread, and no other thread in the process (it forks).
// Lifetime: the child has ended when run_in_child() returns, also on an error.

#include <cstdint>
#include <functional>
#include <string>

#include "bench/heap/workload.h"
#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/heap/heap.h"

namespace yonder::bench::heap {

enum class MemoryKind : std::uint8_t { kHybrid, kPaging, kObject, kFaulted, kPlain };
// "hybrid", …
const char* name_of(MemoryKind kind);

struct RunOptions {
  const Workload* workload = nullptr;
  MemoryKind memory = MemoryKind::kHybrid;
  Work work;
  Bytes local{0};    // Of the far heap; 0: as much as there is, so that nothing leaves.
  std::string node;  // As in HeapOptions.
  std::string link;
  bool read_ahead = true;
  // Once before, unmeasured, on the same memory: what is measured then is the program and not the
  // kernel (and here the hypervisor, at 0.4 GB/s) that finds it memory to touch for the first time.
  bool warm = false;
  Duration timeout = std::chrono::minutes(10);  // Then the child is killed.
  // Called in the child before anything else; false ends it. For cgroups.
  std::function<bool()> in_child;
};

// What comes back from the child: plain data.
struct RunResult {
  double operations_per_s = 0;
  std::uint64_t operations = 0;
  std::uint64_t checksum = 0;
  std::uint64_t wrong_objects = 0;
  std::uint64_t p50_ns = 0;  // 0 for all: the workload has no requests, or they were not timed.
  std::uint64_t p90_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t far_bytes = 0;          // Far pages in use, at the ends of the measured phase.
  std::uint64_t working_set_bytes = 0;  // The same without garbage; if all was local.
  std::uint64_t metadata_bytes = 0;
  std::uint64_t peak_rss_bytes = 0;  // Of the whole process.
  far::HeapStats stats;              // Of the measured phase.
};

// How much the far heap of a run has for its objects.
Bytes far_bytes_of(const RunOptions& options);

// Errors: kDeadlineExceeded (see timeout), kClosed (the child crashed or its heap could not be
// made; the reason is on its standard error).
Result<RunResult> run_in_child(const RunOptions& options);
// A number that is measured in a process of its own: one that makes threads, say. Errors as above.
Result<double> measure_in_child(const std::function<Result<double>()>& measure, Duration timeout);

// The same with what came out, to be compared.
struct Figure {
  double operations_per_s = 0;
  std::uint64_t checksum = 0;
  std::uint64_t wrong_objects = 0;
};
Result<Figure> figure_in_child(const std::function<Result<Figure>()>& measure, Duration timeout);

}  // namespace yonder::bench::heap
