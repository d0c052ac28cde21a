#pragma once
// `yonder bench barrier`: what far pointers cost when everything is local.
//
//   deref_ns_over_plain_P   a dereference, guard in and guard out, less a plain load of the same
//                           objects in the same order. P: hot_dependent (16 KiB, the next address
//                           depends on what was read), random_independent and random_dependent
//                           (all of the memory); deref_ns_over_plain is that of hot_dependent
//   overhead_fraction_W     1 - far / plain, of each workload (workload.h) on all local memory
//   evict_cycles_per_byte   time spent on making room × clock rate / bytes written out
//   metadata_fraction       tables of the heap / far bytes in use, at a quarter of local memory
//
//   --set bytes=B and --workload W as for `yonder bench heap`

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_barrier_bench(const Options& options, Report& report);

}  // namespace yonder::bench
