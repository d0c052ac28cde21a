#pragma once
// The buckets of a histogram metric: four per power of two, for every value from
// 0 to 2^40 (18 minutes in nanoseconds; 1 TiB).
//
// Bucket i holds the values above upper(i - 1) and up to upper(i), inclusive as
// Prometheus' "le" wants it, so every power of two is a bound and no value stands
// on the wrong side of one. With m = 4 … 7 and s = 0, 1, …:
//
//   index   0  1  2  3  4 … 7         4s + m
//   upper   1  2  3  4  5 … 8  …      (m + 1) · 2^s
//
// A value is known to within a quarter of itself. That is coarser than base's
// Histogram on purpose: every thread has these cells for every histogram. Where
// exact percentiles matter (benchmarks) use that one.
//
// Concurrency and lifetime: pure functions.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace yonder::telemetry {

inline constexpr std::uint64_t kHistogramMax = std::uint64_t{1} << 40;

constexpr std::size_t histogram_bucket(std::uint64_t value) {
  const std::uint64_t below = std::min(value, kHistogramMax) - (value == 0 ? 0 : 1);
  const unsigned width = static_cast<unsigned>(std::bit_width(below));
  if (width <= 3) return below;
  const unsigned shift = width - 3;
  return 4 * shift + (below >> shift);
}

constexpr std::uint64_t histogram_upper(std::size_t bucket) {
  if (bucket < 8) return bucket + 1;
  const std::size_t shift = bucket / 4 - 1;
  return (bucket % 4 + 5) << shift;
}

inline constexpr std::size_t kHistogramBuckets = histogram_bucket(kHistogramMax) + 1;

static_assert(kHistogramBuckets == 156, "37 shifts of 4 and the first 8");
static_assert(histogram_upper(kHistogramBuckets - 1) == kHistogramMax);
static_assert(histogram_bucket(8) == 7 && histogram_bucket(9) == 8 && histogram_upper(8) == 10);

}  // namespace yonder::telemetry
