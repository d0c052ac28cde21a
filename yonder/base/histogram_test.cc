#include "yonder/base/histogram.h"

#include <gtest/gtest.h>

namespace yonder {
namespace {

TEST(Histogram, EmptyHasNothingToSay) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.percentile(99), 0u);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.stddev(), 0);
  histogram.check_invariants();
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (std::uint64_t value = 0; value < 256; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(0), 0u);
  EXPECT_EQ(histogram.percentile(50), 127u);
  EXPECT_EQ(histogram.percentile(100), 255u);
  EXPECT_DOUBLE_EQ(histogram.mean(), 127.5);
  // The population deviation of 0…n-1 is sqrt((n² - 1) / 12).
  EXPECT_NEAR(histogram.stddev(), 73.9, 0.01);
  histogram.check_invariants();
}

// 99.9 has no exact double; taken at its stored value it would choose the 1000th of 1000.
TEST(Histogram, PercentileOfARoundShareChoosesTheRightRank) {
  Histogram histogram({.significant_digits = 4});
  for (std::uint64_t value = 1; value <= 1000; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(99.9), 999u);
  EXPECT_EQ(histogram.percentile(99.99), 1000u);
  EXPECT_EQ(histogram.percentile(10), 100u);
}

TEST(Histogram, ClampsAndCountsWhatIsOutOfRange) {
  Histogram histogram({.max_value = 1000});
  histogram.record(1000);
  EXPECT_EQ(histogram.clamped(), 0u);
  histogram.record_n(1001, 3);
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.clamped(), 4u);
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_EQ(histogram.max(), 1000u);
  histogram.check_invariants();
}

TEST(Histogram, TakesTheWholeOf64Bits) {
  Histogram histogram({.significant_digits = 1, .max_value = UINT64_MAX});
  histogram.record_n(UINT64_MAX, 1000);
  histogram.record(0);
  EXPECT_EQ(histogram.percentile(50), UINT64_MAX);
  EXPECT_EQ(histogram.clamped(), 0u);
  EXPECT_NEAR(histogram.mean(), 0x1p64 * 1000 / 1001, 0x1p40);
  histogram.check_invariants();
}

TEST(Histogram, CorrectionAddsTheRequestsASlowAnswerHid) {
  Histogram histogram({.significant_digits = 4});
  histogram.record_corrected(1000, 250);  // Hides 750, 500 and 250.
  EXPECT_EQ(histogram.count(), 4u);
  EXPECT_EQ(histogram.percentile(25), 250u);
  EXPECT_EQ(histogram.percentile(50), 500u);
  EXPECT_EQ(histogram.percentile(75), 750u);
  histogram.record_corrected(249, 250);
  histogram.record_corrected(499, 250);
  histogram.record_corrected(7, 0);
  EXPECT_EQ(histogram.count(), 7u);
  histogram.check_invariants();
}

// One stall of an hour at a nanosecond interval hides 3.6 · 10^12 values: adding them one
// by one would not end.
TEST(Histogram, CorrectionCostsBucketsNotValues) {
  Histogram histogram;
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  histogram.record_corrected(kHour, 1);
  EXPECT_EQ(histogram.count(), kHour);
  EXPECT_DOUBLE_EQ(histogram.mean(), (1.0 + kHour) / 2);
  EXPECT_NEAR(static_cast<double>(histogram.percentile(50)), kHour / 2.0, kHour / 200.0);
  histogram.check_invariants();
}

TEST(Histogram, CorrectionClampsHiddenValuesToo) {
  Histogram histogram({.max_value = 100});
  histogram.record_corrected(130, 10);  // 130, 120 and 110 are too large; 100, 90 … 10 are not.
  EXPECT_EQ(histogram.count(), 13u);
  EXPECT_EQ(histogram.clamped(), 3u);
  EXPECT_EQ(histogram.min(), 10u);
  histogram.check_invariants();
}

TEST(Histogram, ResetForgetsEverything) {
  Histogram histogram({.max_value = 10});
  histogram.record(100);
  histogram.reset();
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.clamped(), 0u);
  EXPECT_EQ(histogram.options().max_value, 10u);
  histogram.check_invariants();
}

TEST(Histogram, DefaultFitsInFortyKibibytes) { EXPECT_LE(Histogram().memory_bytes(), 40u << 10); }

TEST(HistogramDeathTest, RefusesWrongShapes) {
  EXPECT_DEATH(Histogram({.significant_digits = 5}), "1 to 4 significant digits");
  EXPECT_DEATH(Histogram({.max_value = 0}), "needs a range");
  Histogram coarse({.significant_digits = 1});
  EXPECT_DEATH(coarse.merge(Histogram()), "different shape");
  EXPECT_DEATH((void)coarse.percentile(101), "between 0 and 100");
}

}  // namespace
}  // namespace yonder
