#pragma once
// `yonder bench fabric`: every provider against its raw limit, in one report.

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_fabric_bench(const Options& options, Report& report);

}  // namespace yonder::bench
