#include "yonder/base/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "yonder/testing/seed.h"

namespace yonder {
namespace {

double plain_zeta(std::uint64_t n, double theta) {
  double sum = 0;
  for (std::uint64_t i = n; i > 0; --i) sum += std::pow(static_cast<double>(i), -theta);
  return sum;
}

TEST(Zeta, FormulaAgreesWithThePlainSum) {
  for (const double theta : {0.01, 0.5, 0.99, 1.0, 1.2, 2.7, 8.0}) {
    for (const std::uint64_t n : {1u, 2u, 255u, 256u, 257u, 1000u, 100'000u}) {
      const double expected = plain_zeta(n, theta);
      EXPECT_NEAR(zeta(n, theta), expected, expected * 1e-12) << "n " << n << " theta " << theta;
    }
  }
}

TEST(Zeta, ReproducesTheConstantOfYcsb) {
  // Theirs is a plain sum of 10^10 terms, whose rounding errors reach the tenth digit.
  EXPECT_NEAR(zeta(10'000'000'000, 0.99), 26.46902820178302, 1e-8);
}

TEST(FnvHash, MatchesYcsb) {
  EXPECT_EQ(fnv_hash64(0), 6284781860667377211u);
  EXPECT_EQ(fnv_hash64(1), 8517097267634966620u);
  EXPECT_EQ(fnv_hash64(2), 1820151046732198393u);
  EXPECT_EQ(fnv_hash64(3), 4052466453699787802u);
  EXPECT_EQ(fnv_hash64(999), 2071219101098386137u);
  EXPECT_EQ(fnv_hash64(123456789), 2350796791908741607u);
}

TEST(Zipfian, StaysInRangeAndReachesEveryItemOfASmallSet) {
  Prng prng(testing::test_seed());
  for (const double theta : {0.1, 0.99, 1.0, 1.5}) {
    for (const std::uint64_t items : {1u, 2u, 3u, 5u}) {
      const Zipfian zipfian({.items = items, .theta = theta});
      std::vector<int> seen(items);
      for (int i = 0; i < 2000; ++i) {
        const std::uint64_t item = zipfian.next(prng);
        ASSERT_LT(item, items);
        ++seen[item];
      }
      EXPECT_EQ(std::ranges::count(seen, 0), 0) << "items " << items << " theta " << theta;
    }
  }
}

TEST(Zipfian, SurvivesExtremeExponentsAndSizes) {
  Prng prng(testing::test_seed());
  const Zipfian steep({.items = UINT64_MAX / 4, .theta = 50});
  const Zipfian flat({.items = UINT64_MAX / 4, .theta = 1e-6});
  const Zipfian near_one({.items = 1'000'000, .theta = std::nextafter(1.0, 2.0)});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(steep.next(prng), 0u);
    EXPECT_LT(flat.next(prng), UINT64_MAX / 4);
    EXPECT_LT(near_one.next(prng), 1'000'000u);
  }
}

// Growing one by one must end where starting large ends: the same draws from the same seed.
TEST(Zipfian, GrowsIntoTheDistributionItWouldHaveStartedWith) {
  for (const double theta : {0.5, 0.99, 1.0, 1.3}) {
    Zipfian grown({.items = 10, .theta = theta});
    for (std::uint64_t items = 11; items <= 500; ++items) grown.grow(items);
    grown.grow(20'000);
    const Zipfian fresh({.items = 20'000, .theta = theta});
    Prng a(testing::test_seed());
    Prng b(testing::test_seed());
    for (int i = 0; i < 1000; ++i) {
      const auto from_grown = static_cast<double>(grown.next(a));
      EXPECT_NEAR(from_grown, static_cast<double>(fresh.next(b)), 1) << "theta " << theta;
    }
  }
}

TEST(ScrambledZipfian, ScattersTheHotRanksByTheHash) {
  Prng prng(testing::test_seed());
  const ScrambledZipfian keys({.items = 1000});
  std::vector<int> seen(1000);
  for (int i = 0; i < 20'000; ++i) ++seen[keys.next(prng)];
  // Rank 0 has a share of 1 / 26.469 = 3.8 %, rank 1 of 1.9 %; nothing else comes near.
  EXPECT_EQ(std::ranges::max_element(seen) - seen.begin(), fnv_hash64(0) % 1000);
  EXPECT_NEAR(seen[fnv_hash64(0) % 1000], 0.0389 * 20'000, 6 * std::sqrt(0.0389 * 20'000));
}

TEST(ScrambledZipfian, TakesAnyTheta) {
  Prng prng(testing::test_seed());
  const ScrambledZipfian keys({.items = 77, .theta = 1.5});
  int hottest = 0;
  for (int i = 0; i < 10'000; ++i) hottest += keys.next(prng) == fnv_hash64(0) % 77 ? 1 : 0;
  // Zeta of 1.5 is 2.612, so rank 0 alone has 38 %.
  EXPECT_GT(hottest, 3500);
  EXPECT_LT(hottest, 4800);
}

TEST(Latest, FavoursTheNewestItemAndFollowsGrowth) {
  Prng prng(testing::test_seed());
  Latest latest({.items = 1});
  EXPECT_EQ(latest.next(prng), 0u);
  for (const std::uint64_t items : {2u, 100u, 1000u}) {
    latest.grow(items);
    std::vector<int> seen(items);
    for (int i = 0; i < 5000; ++i) ++seen[latest.next(prng)];
    EXPECT_EQ(std::ranges::max_element(seen) - seen.begin(), static_cast<std::ptrdiff_t>(items - 1));
  }
}

TEST(Uniform, GivesEveryItemTheSameShare) {
  Prng prng(testing::test_seed());
  const Uniform uniform(10);
  std::vector<int> seen(10);
  for (int i = 0; i < 10'000; ++i) ++seen[uniform.next(prng)];
  for (const int count : seen) EXPECT_NEAR(count, 1000, 6 * std::sqrt(1000));
}

TEST(DistributionDeathTest, RefusesWhatHasNoMeaning) {
  EXPECT_DEATH(Uniform(0), "needs items");
  EXPECT_DEATH(Zipfian({.items = 0}), "needs items");
  EXPECT_DEATH(Zipfian({.items = 5, .theta = 0}), "theta must be above 0");
  Zipfian zipfian({.items = 5});
  EXPECT_DEATH(zipfian.grow(4), "only grow");
}

}  // namespace
}  // namespace yonder
