#pragma once
// A workload: a program that builds a working set of a given size, works on it, and says how
// fast that was and what came out.
//
// Everything follows from the seed, so that the same program on another memory must come to the
// same checksum. Eight of them stand in for the programs of the paper (Atlas, OSDI 2024, table 1):
//
//   MCD-CL  key-value cache, CacheLib-like sizes and skew, hot keys that change   key_value.h
//   MCD-U   key-value cache, uniform                                               key_value.h
//   GPR     PageRank over a graph that grows                                       page_rank.h
//   ATC     triangles of a graph that grows, kept in trees                         triangles.h
//   MWC     word count by map and reduce                                           word_count.h
//   MPVC    page-view count by map and reduce                                      page_views.h
//   DF      columns of a table, copied and shuffled                                data_frame.h
//   WS      requests of 32 look-ups, one large element, encrypted and compressed   web_service.h
//
// Concurrency: run() starts its own threads and ends them. Lifetime: values.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "yonder/base/histogram.h"

namespace yonder::bench::heap {

struct Measured {
  std::uint64_t operations = 0;
  double seconds = 0;
  std::uint64_t checksum = 0;       // Follows from the seed, whatever the memory.
  std::uint64_t wrong_objects = 0;  // Whose content was not what had been written.
  Histogram latency_ns;             // Of requests: from when each was due. Empty for batch jobs.
};

struct Work {
  std::uint64_t seed = 1;
  std::uint64_t bytes = std::uint64_t{64} << 20;  // About what its objects should take.
  unsigned threads = 2;
  // Work per byte of the working set; 1 is what `yonder bench heap` measures.
  double effort = 1;
  // Open loop, for those that serve requests: so many begin each second, whether or not the
  // ones before them have ended. 0: the next begins when the last has ended.
  double requests_per_s = 0;
  // Called once, when the set-up is over and what is measured begins.
  std::function<void()> on_measure;
  // Called once with what was measured, before the working set is taken apart: a process that
  // is only there for the run may end here.
  std::function<void(const Measured&)> on_end;
};

// What the threads of one phase did together.
Measured total(std::span<const Measured> threads, double seconds);
// The same at the end of the measured phase: tells on_end.
Measured finish(const Work& work, std::span<const Measured> threads, double seconds);

struct Workload {
  std::string_view name;
  Measured (*far)(const Work& work);
  Measured (*plain)(const Work& work);
  Measured (*faulted)(const Work& work);  // Plain pointers to memory that is paged by faults.
  // Of the bytes that a benchmark was asked for: the graphs go over theirs many times, in steps
  // of 64 bytes, and would take all of its time.
  double share_of_bytes = 1;
};

// In the order of the table.
std::span<const Workload> all_workloads();
// Null: there is none of that name.
const Workload* find_workload(std::string_view name);

}  // namespace yonder::bench::heap
