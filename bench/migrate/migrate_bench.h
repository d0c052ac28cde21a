#pragma once
// `yonder bench migrate`: segments and containers that move between two live processes.
//
// Ratios: pause_4g_vs_1m (and per provider), container_vs_std, source_tput_during_vs_before,
// pull_vs_link. Results: pause_us_PROVIDER (median) and _max, p95_us_demand, p95_us_prefetch:
// of the worst 100 ms after the transfer. The source's throughput before is taken while the
// target's core moves as many bytes of its own. For both, each process has a core of its own, as
// it would have on a host of its own.
//
// `--set part=pauses|access|bandwidth|source|container` runs one part alone.
//
// Concurrency: one thread calls it; it forks, so it must be the only one.

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_migrate_bench(const Options& options, Report& report);

}  // namespace yonder::bench
