// The histogram against its naive twin: a vector of all values, sorted when asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "yonder/base/histogram.h"
#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder {
namespace {

class Twin {
 public:
  explicit Twin(std::uint64_t limit) : limit_(limit) {}

  void record(std::uint64_t value) {
    clamped_ += value > limit_ ? 1 : 0;
    values_.push_back(std::min(value, limit_));
  }
  void record_corrected(std::uint64_t value, std::uint64_t interval) {
    record(value);
    if (interval == 0) return;
    while (value / interval >= 2) record(value -= interval);
  }
  void merge(const Twin& other) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    clamped_ += other.clamped_;
  }
  void sort() { std::ranges::sort(values_); }

  const std::vector<std::uint64_t>& values() const { return values_; }
  std::uint64_t clamped() const { return clamped_; }

 private:
  std::uint64_t limit_;
  std::uint64_t clamped_ = 0;
  std::vector<std::uint64_t> values_;
};

void expect_same(const Histogram& histogram, Twin& twin) {
  histogram.check_invariants();
  twin.sort();
  const auto& values = twin.values();
  ASSERT_EQ(histogram.count(), values.size());
  EXPECT_EQ(histogram.clamped(), twin.clamped());
  if (values.empty()) return;
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  const double error = std::pow(10.0, -histogram.options().significant_digits);
  long double sum = 0;
  for (const std::uint64_t value : values) sum += static_cast<long double>(value);
  const auto mean = static_cast<double>(sum / static_cast<long double>(values.size()));
  EXPECT_NEAR(histogram.mean(), mean, mean * 1e-12);
  double squares = 0;
  for (const std::uint64_t value : values) squares += std::pow(static_cast<double>(value) - mean, 2);
  const double stddev = std::sqrt(squares / static_cast<double>(values.size()));
  EXPECT_NEAR(histogram.stddev(), stddev, static_cast<double>(values.back()) * error);
  for (const double percent : {0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const double share = std::max(std::nextafter(percent, 0.0), 0.0) / 100;
    const auto rank = std::clamp<std::size_t>(
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size()))), 1, values.size());
    const std::uint64_t truth = values[rank - 1];
    const std::uint64_t reported = histogram.percentile(percent);
    EXPECT_GE(reported, truth) << "p" << percent;
    EXPECT_LE(static_cast<double>(reported), static_cast<double>(truth) * (1 + error)) << "p" << percent;
  }
}

// Every magnitude equally often: uniform values would never test the small buckets.
std::uint64_t random_value(Prng& prng, std::uint64_t limit) {
  const std::uint64_t value = prng() >> prng.below(64);
  return prng.chance(0.9) ? value % limit : value;
}

TEST(HistogramModel, AgreesWithASortedVectorAtEveryPrecision) {
  Prng prng(testing::test_seed());
  for (int round = 0; round < 40; ++round) {
    const HistogramOptions options{.significant_digits = static_cast<int>(prng.between(1, 4)),
                                   .max_value = (prng() >> prng.below(60)) | 1};
    Histogram histogram(options);
    Twin twin(options.max_value);
    const std::uint64_t steps = prng.below(3000);
    for (std::uint64_t i = 0; i < steps; ++i) {
      const std::uint64_t value = random_value(prng, options.max_value);
      if (prng.chance(0.05)) {
        // At most 50 hidden values, so that the twin stays small.
        const std::uint64_t interval = value / prng.between(1, 50);
        histogram.record_corrected(value, interval);
        twin.record_corrected(value, interval);
      } else {
        const std::uint64_t times = prng.below(3);
        histogram.record_n(value, times);
        for (std::uint64_t n = 0; n < times; ++n) twin.record(value);
      }
    }
    expect_same(histogram, twin);
  }
}

TEST(HistogramModel, MergingPartsEqualsRecordingTheWhole) {
  Prng prng(testing::test_seed());
  const HistogramOptions options{.max_value = 1'000'000};
  Histogram whole(options);
  Twin twin(options.max_value);
  for (int part = 0; part < 5; ++part) {
    Histogram histogram(options);
    Twin part_twin(options.max_value);
    const std::uint64_t steps = prng.below(2000);
    for (std::uint64_t i = 0; i < steps; ++i) {
      const std::uint64_t value = random_value(prng, options.max_value);
      histogram.record(value);
      part_twin.record(value);
    }
    whole.merge(histogram);
    twin.merge(part_twin);
    expect_same(whole, twin);
  }
}

}  // namespace
}  // namespace yonder
