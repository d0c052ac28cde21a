#pragma once
// The list of benchmarks, for `yonder bench`.

#include <span>

#include "bench/harness/benchmark.h"

namespace yonder::bench {

std::span<const Benchmark> all_benchmarks();

}  // namespace yonder::bench
