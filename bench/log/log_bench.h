#pragma once
// `yonder bench log`: appends in batches against one record per append.
//
// On `sim` (virtual time, the same for the same seed) the cluster of paper 002: the log
// on one of eight machines, transaction engines on the others. Elsewhere one engine and
// a log in another process of this machine.
//
// Ratios of throughputs (records a second; more is better):
//   optimised_vs_basic                 sim: 7 engines, batches of 32 (SP), NUMA placement,
//                                      against single records without it
//   batched_vs_unbatched               batches of 32 against single records; sim: 7 engines
//   batched_vs_unbatched_P             the same over the real provider P
//   batch_B_vs_unbatched_E             sim: E engines, batches of B (SP), with NUMA placement
//   sgl_B_vs_unbatched_E               the same, gathered
//   numa_vs_not_E                      sim: single records, placement alone
//
// Concurrency: the caller's thread.

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

Result<void> run_log_bench(const Options& options, Report& report);

}  // namespace yonder::bench
