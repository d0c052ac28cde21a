#pragma once
// `yonder bench consolidation`: 32-byte writes to 1 KiB regions, one by one and through
// a burst buffer (paper 002, figure 8).

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_consolidation_bench(const Options& options, Report& report);

}  // namespace yonder::bench
