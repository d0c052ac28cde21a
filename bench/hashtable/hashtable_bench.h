#pragma once
// `yonder bench hashtable`: the table in remote memory.
//
// On `sim` (virtual time, the same for the same seed), paper 002, IV-B: one machine holds
// the table, front ends on the others write 64 B values, keys by Zipf 0.99, four requests
// under way at each front end, write-back of hot buckets within 2 ms. Ratios of throughputs (more is better):
//   optimised_vs_basic               the best of 6 to 14 front ends: all optimisations
//                                    against none
//   optimised_vs_basic_E, numa_vs_basic_E   E front ends; placement alone
// Elsewhere one front end, and a table in another process of this machine:
//   find_vs_local_map                finds (shm) against oneTBB's concurrent_hash_map in this
//                                    process, same keys and values, random order
//   multiget32_vs_get                32 keys at once against one after the other
//
// Concurrency: the caller's thread.

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

Result<void> run_hashtable_bench(const Options& options, Report& report);

}  // namespace yonder::bench
