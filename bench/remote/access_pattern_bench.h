#pragma once
// `yonder bench access-pattern`: sequential against random places in large registered
// memory (paper 002, figure 6).

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_access_pattern_bench(const Options& options, Report& report);

}  // namespace yonder::bench
