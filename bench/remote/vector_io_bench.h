#pragma once
// `yonder bench vector-io`: the ways a vector of small pieces can travel (paper 002,
// figures 3 to 5). Pieces lie apart here and next to each other at the target.

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_vector_io_bench(const Options& options, Report& report);

}  // namespace yonder::bench
