#include "yonder/base/prng.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "yonder/testing/seed.h"

namespace yonder {
namespace {

static_assert(std::uniform_random_bit_generator<Prng>);

// The first outputs of the reference programs of Blackman and Vigna.
TEST(Prng, SplitmixMatchesItsReference) {
  std::uint64_t state = 1234567;
  EXPECT_EQ(splitmix64(state), 6457827717110365317u);
  EXPECT_EQ(splitmix64(state), 3203168211198807973u);
  EXPECT_EQ(splitmix64(state), 9817491932198370423u);
}

// xoshiro256** written down a second time, in the reference's own terms.
class Reference {
 public:
  explicit Reference(std::uint64_t seed) {
    for (std::uint64_t& word : s_) word = splitmix64(seed);
  }
  std::uint64_t next() {
    const std::uint64_t result = rotl(s_[1] * 5, 7) * 9;
    const std::uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0], s_[3] ^= s_[1], s_[1] ^= s_[2], s_[0] ^= s_[3], s_[2] ^= t;
    s_[3] = rotl(s_[3], 45);
    return result;
  }

 private:
  static std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::uint64_t s_[4];
};

TEST(Prng, IsXoshiro256StarStar) {
  Prng prng(testing::test_seed());
  Reference reference(testing::test_seed());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(prng(), reference.next());
}

TEST(Prng, EqualSeedsRepeatAndDifferentSeedsDiffer) {
  Prng a(7);
  Prng b(7);
  Prng c(8);
  EXPECT_EQ(a(), b());
  EXPECT_NE(a(), c());
}

TEST(Prng, BelowIsUniform) {
  Prng prng(testing::test_seed());
  constexpr int kDraws = 60'000;
  constexpr std::uint64_t kSides = 6;
  std::vector<int> seen(kSides);
  for (int i = 0; i < kDraws; ++i) ++seen[prng.below(kSides)];
  const double expected = static_cast<double>(kDraws) / kSides;
  for (const int count : seen) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
}

// With n = 3 * 2^62 a biased method gives the lower third of the range half of all draws.
TEST(Prng, BelowHasNoBiasForHugeRanges) {
  Prng prng(testing::test_seed());
  constexpr std::uint64_t kRange = std::uint64_t{3} << 62;
  constexpr int kDraws = 30'000;
  int low = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t value = prng.below(kRange);
    ASSERT_LT(value, kRange);
    low += value < (std::uint64_t{1} << 62) ? 1 : 0;
  }
  EXPECT_NEAR(low, kDraws / 3.0, 6 * std::sqrt(kDraws));
}

TEST(Prng, RangesIncludeTheirEnds) {
  Prng prng(testing::test_seed());
  EXPECT_EQ(prng.below(1), 0u);
  EXPECT_EQ(prng.between(9, 9), 9u);
  bool low = false;
  bool high = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = prng.between(5, 7);
    ASSERT_TRUE(value >= 5 && value <= 7);
    low |= value == 5;
    high |= value == 7;
  }
  EXPECT_TRUE(low && high);
  EXPECT_NE(prng.between(0, UINT64_MAX), prng.between(0, UINT64_MAX));
}

TEST(Prng, DoublesFillTheUnitInterval) {
  Prng prng(testing::test_seed());
  double sum = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = prng.uniform_double();
    ASSERT_TRUE(value >= 0 && value < 1);
    sum += value;
  }
  // The standard deviation of the mean is sqrt(1 / 12 / draws) = 0.002.
  EXPECT_NEAR(sum / kDraws, 0.5, 0.013);
}

TEST(Prng, SplitContinuesWhileTheOriginalJumps) {
  Prng original(testing::test_seed());
  Prng untouched = original;
  Prng stream = original.split();
  EXPECT_EQ(stream, untouched);
  untouched.jump();
  EXPECT_EQ(original, untouched);
  int equal = 0;
  for (int i = 0; i < 1000; ++i) equal += original() == stream() ? 1 : 0;
  EXPECT_EQ(equal, 0);
}

// One step of the generator is a linear map of its 256 state bits, so a jump of 2^128
// steps is that map squared 128 times. Squaring it here proves the jump constant.
using State = std::array<std::uint64_t, 4>;
using Matrix = std::array<State, 256>;  // Row i: what a state with only bit i becomes.

State mapped(const Matrix& matrix, const State& state) {
  State result{};
  for (std::size_t bit = 0; bit < 256; ++bit) {
    if (((state[bit / 64] >> (bit % 64)) & 1) == 0) continue;
    for (std::size_t word = 0; word < 4; ++word) result[word] ^= matrix[bit][word];
  }
  return result;
}

Matrix one_step() {
  Matrix matrix{};
  for (std::size_t bit = 0; bit < 256; ++bit) {
    State state{};
    state[bit / 64] = std::uint64_t{1} << (bit % 64);
    Prng prng = std::bit_cast<Prng>(state);
    prng();
    matrix[bit] = std::bit_cast<State>(prng);
  }
  return matrix;
}

TEST(Prng, JumpSkipsExactlyTwoToThe128Draws) {
  Matrix matrix = one_step();
  for (int doubling = 0; doubling < 128; ++doubling) {
    Matrix squared;
    for (std::size_t bit = 0; bit < 256; ++bit) squared[bit] = mapped(matrix, matrix[bit]);
    matrix = squared;
  }
  Prng prng(testing::test_seed());
  const State expected = mapped(matrix, std::bit_cast<State>(prng));
  prng.jump();
  EXPECT_EQ(std::bit_cast<State>(prng), expected);
}

}  // namespace
}  // namespace yonder
