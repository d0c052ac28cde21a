#pragma once
// `yonder bench fragmentation`: memory after compaction when objects of one size were
// freed at random (Figure 17 of the CoRM paper), ours and every other strategy.
//
// Concurrency: one benchmark at a time.

#include "bench/harness/benchmark.h"

namespace yonder::bench {

struct FragmentationCase {
  std::uint32_t object_bytes = 32;
  double freed = 0.4;
  std::uint32_t objects = 100'000;
  std::uint32_t threads = 1;
  std::uint64_t seed = 1;
};
// Keys end in _N_P: object bytes, percent freed.
Result<void> measure_fragmentation(const FragmentationCase& wanted, Report& report);

Result<void> run_fragmentation_bench(const Options& options, Report& report);

}  // namespace yonder::bench
