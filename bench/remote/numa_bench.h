#pragma once
// `yonder bench numa`: thread, memory and NIC on one socket or not (paper 002, table
// III), and what the router makes of it. Simulated; on a real machine: what the router
// costs where it has nothing to do.

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_numa_bench(const Options& options, Report& report);

}  // namespace yonder::bench
