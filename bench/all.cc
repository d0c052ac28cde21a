#include "bench/all.h"

#include <array>

#include "bench/fabric/fabric_bench.h"

namespace yonder::bench {
namespace {

constexpr std::array kBenchmarks = {
    Benchmark{"fabric", "the four providers against their raw limits", &run_fabric_bench},
};

}  // namespace

std::span<const Benchmark> all_benchmarks() { return kBenchmarks; }

}  // namespace yonder::bench
