#include "bench/fragmentation/fragmentation_bench.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "bench/fragmentation/comparison.h"
#include "yonder/base/prng.h"

namespace yonder::bench {

Result<void> measure_fragmentation(const FragmentationCase& wanted, Report& report) {
  YONDER_TRY(comparison,
             Comparison::create(
                 {.threads = wanted.threads, .seed = wanted.seed, .paper_classes = {wanted.object_bytes}}));
  for (std::uint32_t i = 0; i < wanted.objects; ++i) {
    YONDER_TRY_VOID(comparison.allocate(i, wanted.object_bytes));
  }
  // Exactly this share, in random order.
  std::vector<std::uint32_t> victims(wanted.objects);
  std::iota(victims.begin(), victims.end(), 0u);
  Prng random(wanted.seed);
  for (std::size_t i = victims.size(); i > 1; --i) std::swap(victims[i - 1], victims[random.below(i)]);
  victims.resize(static_cast<std::size_t>(wanted.freed * wanted.objects + 0.5));
  for (const std::uint32_t victim : victims) YONDER_TRY_VOID(comparison.free(victim));
  comparison.report(fmt::format("_{}_{:.0f}", wanted.object_bytes, wanted.freed * 100), report);
  return {};
}

Result<void> run_fragmentation_bench(const Options& options, Report& report) {
  report.param("objects_small", options.quick ? 200'000.0 : 1'000'000.0);
  report.param("objects_large", options.quick ? 30'000.0 : 100'000.0);
  for (const std::uint32_t bytes : {32u, 256u, 2048u, 8192u}) {
    for (const double freed : {0.4, 0.5, 0.6, 0.7, 0.8, 0.9}) {
      const std::uint32_t small = options.quick ? 200'000 : 1'000'000;
      const std::uint32_t large = options.quick ? 30'000 : 100'000;
      YONDER_TRY_VOID(measure_fragmentation({.object_bytes = bytes,
                                             .freed = freed,
                                             .objects = bytes > 1000 ? large : small,
                                             .seed = options.seed},
                                            report));
    }
  }
  return {};
}

}  // namespace yonder::bench
