#include "bench/heap/requests.h"

#include <array>
#include <numeric>

namespace yonder::bench::heap {
namespace {

struct Quantile {
  double below;  // This share of all values…
  double bytes;  // …is not larger.
};
// kvcache_reg. Its last thousandth (up to 512 KiB) would not be items of a cache's pages; it is
// cut off at what fits into one.
constexpr std::array kQuantiles = {
    Quantile{0, 64},    Quantile{.05, 95},  Quantile{.25, 127}, Quantile{.50, 159},   Quantile{.75, 160},
    Quantile{.90, 191}, Quantile{.95, 351}, Quantile{.99, 959}, Quantile{.999, 3840}, Quantile{1.01, 3840}};

}  // namespace

std::uint32_t cache_value_bytes(Prng& random) {
  const double u = random.uniform_double();
  std::size_t i = 1;
  while (kQuantiles[i].below < u) ++i;
  const Quantile& low = kQuantiles[i - 1];
  const Quantile& high = kQuantiles[i];
  const double part = (u - low.below) / (high.below - low.below);
  return static_cast<std::uint32_t>(low.bytes + part * (high.bytes - low.bytes));
}

Scatter::Scatter(std::uint64_t items) : items_(items), factor_(items * 6 / 10 | 1) {
  // The golden section leaves neighbours far apart; any factor without a common divisor permutes.
  while (std::gcd(factor_, items_) != 1) ++factor_;
}

}  // namespace yonder::bench::heap
