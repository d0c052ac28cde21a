#pragma once
// `yonder bench heap-redis`: an unmodified redis-server of which half fits into local
// memory, under `yonder run` and under the kernel's swap on a RAM-backed device.
//
//   redis_vs_swap             geometric mean of GET and SET (redis_get_vs_swap, redis_set_vs_swap)
//   redis_vs_plain            the same against a server with all of its memory: what the
//                             best paging could reach is redis_vs_swap / redis_vs_plain
//   redis_pipelined_vs_…      with 16 requests under way for each client
//
// The values are text of which lz4 makes a third; `--set values=same` takes those of
// redis-benchmark, one letter a thousand times over, which zram stores for next to nothing. Both
// servers may have the same private memory here (resident_bytes, swap_resident_bytes).
//
// All servers hold the same data and run side by side; redis-benchmark loads one after the
// other in short rounds. Swap needs root, a memory cgroup (v1) and zram: where it
// cannot be set up the report has our figures and says why there is no ratio. Everything
// that was set up is undone.
//
// Concurrency: one benchmark runs at a time.

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_redis_bench(const Options& options, Report& report);

}  // namespace yonder::bench
