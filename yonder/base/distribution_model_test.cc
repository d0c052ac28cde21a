// The distributions against what is known about them from elsewhere: shares counted
// over five million samples of YCSB's own Java classes, and Zipf's law itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "yonder/base/distribution.h"
#include "yonder/testing/seed.h"

namespace yonder {
namespace {

// The share of requests that go to the k hottest items, as counted, for each k. The
// number of samples is that of the reference, because the hottest items of a sample
// are partly hot by luck, the more the fewer the samples.
class Shares {
 public:
  template <typename Distribution>
  Shares(const Distribution& distribution, std::uint64_t items) : seen_(items) {
    Prng prng(testing::test_seed());
    for (std::uint64_t i = 0; i < kSamples; ++i) ++seen_[distribution.next(prng)];
    std::ranges::sort(seen_, std::greater());
  }

  double top(std::size_t k) const {
    const auto sum =
        std::accumulate(seen_.begin(), seen_.begin() + static_cast<std::ptrdiff_t>(k), std::uint64_t{0});
    return static_cast<double>(sum) / static_cast<double>(kSamples);
  }

 private:
  static constexpr std::uint64_t kSamples = 5'000'000;
  std::vector<std::uint32_t> seen_;
};

// Six standard deviations of both samples and the rounding of the reference.
constexpr double kTolerance = 0.002;

TEST(DistributionModel, ScrambledZipfianOverAThousandItemsIsYcsbs) {
  const Shares shares(ScrambledZipfian({.items = 1000}), 1000);
  EXPECT_NEAR(shares.top(1), 0.0389, kTolerance);
  EXPECT_NEAR(shares.top(2), 0.0592, kTolerance);
  EXPECT_NEAR(shares.top(10), 0.1316, kTolerance);
  EXPECT_NEAR(shares.top(100), 0.2957, kTolerance);
}

TEST(DistributionModel, ScrambledZipfianOverAMillionItemsIsYcsbs) {
  const Shares shares(ScrambledZipfian({.items = 1'000'000}), 1'000'000);
  EXPECT_NEAR(shares.top(1), 0.0377, kTolerance);
  EXPECT_NEAR(shares.top(2), 0.0566, kTolerance);
  EXPECT_NEAR(shares.top(10), 0.1176, kTolerance);
  EXPECT_NEAR(shares.top(10'000), 0.4000, kTolerance);
  EXPECT_NEAR(shares.top(100'000), 0.5648, kTolerance);
}

TEST(DistributionModel, PlainZipfianOverAThousandItemsIsYcsbs) {
  const Shares shares(Zipfian({.items = 1000}), 1000);
  EXPECT_NEAR(shares.top(1), 0.1293, kTolerance);
  EXPECT_NEAR(shares.top(2), 0.1946, kTolerance);
  EXPECT_NEAR(shares.top(10), 0.3984, kTolerance);
  EXPECT_NEAR(shares.top(100), 0.6959, kTolerance);
}

TEST(DistributionModel, PlainZipfianOverAMillionItemsIsYcsbs) {
  const Shares shares(Zipfian({.items = 1'000'000}), 1'000'000);
  EXPECT_NEAR(shares.top(1), 0.0650, kTolerance);
  EXPECT_NEAR(shares.top(2), 0.0978, kTolerance);
  EXPECT_NEAR(shares.top(10), 0.2022, kTolerance);
  EXPECT_NEAR(shares.top(10'000), 0.6711, kTolerance);
  EXPECT_NEAR(shares.top(100'000), 0.8431, kTolerance);
}

// From theta = 1 on every rank must have exactly Zipf's share: a chi-square test over
// all ranks, with the last ones pooled.
TEST(DistributionModel, RejectionInversionIsExactForEveryRank) {
  constexpr std::uint64_t kItems = 200;
  constexpr int kSamples = 500'000;
  for (const double theta : {1.0, 1.0000001, 1.21, 2.0, 3.5}) {
    const Zipfian zipfian({.items = kItems, .theta = theta});
    Prng prng(testing::test_seed());
    std::vector<double> seen(kItems);
    for (int i = 0; i < kSamples; ++i) ++seen[zipfian.next(prng)];
    const double norm = zeta(kItems, theta);
    double chi_square = 0;
    double pooled_expected = 0;
    double pooled_seen = 0;
    int cells = 0;
    for (std::uint64_t rank = 1; rank <= kItems; ++rank) {
      pooled_expected += kSamples * std::pow(static_cast<double>(rank), -theta) / norm;
      pooled_seen += seen[rank - 1];
      if (pooled_expected < 20 && rank < kItems) continue;
      chi_square +=
          (pooled_seen - pooled_expected) * (pooled_seen - pooled_expected) / std::max(pooled_expected, 1.0);
      pooled_expected = pooled_seen = 0;
      ++cells;
    }
    // The mean of chi-square is its degrees of freedom d, its deviation sqrt(2 d).
    const double freedom = cells - 1;
    EXPECT_LT(chi_square, freedom + 7 * std::sqrt(2 * freedom) + 20) << "theta " << theta;
  }
}

}  // namespace
}  // namespace yonder
