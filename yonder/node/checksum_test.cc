#include "yonder/node/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

std::vector<std::byte> random_bytes(Prng& random, std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

TEST(Checksum, IsTheSameOnEveryMachine) {
  // Nodes and clients are built apart: another value would make every read of an old
  // client fail.
  std::vector<std::byte> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(checksum({}, 0), 0x5ff90cc6u);
  EXPECT_EQ(checksum(std::span(bytes).first(4), 7), 0xdbe99b7au);
  EXPECT_EQ(checksum(std::span(bytes).first(20), 7), 0xc39bc346u);
  EXPECT_EQ(checksum(bytes, 7), 0xa1c95c32u);
}

TEST(Checksum, EveryBitOfThePayloadAndOfTheSeedCounts) {
  Prng random(testing::test_seed());
  for (const std::size_t count : {1u, 4u, 8u, 12u, 15u, 16u, 20u, 47u, 48u, 52u, 68u, 100u, 244u}) {
    std::vector<std::byte> bytes = random_bytes(random, count);
    const std::uint64_t seed = random();
    const std::uint32_t sum = checksum(bytes, seed);
    for (std::size_t bit = 0; bit < count * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      EXPECT_NE(checksum(bytes, seed), sum) << count << " bytes, bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
    for (unsigned bit = 0; bit < 64; ++bit) {
      EXPECT_NE(checksum(bytes, seed ^ std::uint64_t{1} << bit), sum) << count << " bytes, seed bit " << bit;
    }
  }
}

TEST(Checksum, PayloadsThatBeginAlikeDifferByTheirLength) {
  const std::vector<std::byte> zeros(256);
  std::unordered_set<std::uint32_t> sums;
  for (std::size_t count = 0; count <= zeros.size(); ++count) {
    EXPECT_TRUE(sums.insert(checksum(std::span(zeros).first(count), 0)).second) << count;
  }
}

// What a torn copy is: some pieces of one version, the others of the next.
TEST(Checksum, NoMixtureOfTwoVersionsFitsEither) {
  Prng random(testing::test_seed());
  constexpr std::size_t kBytes = 244;
  for (const std::size_t piece : {1u, 4u, 8u, 16u, 64u}) {
    const std::vector<std::byte> before = random_bytes(random, kBytes);
    const std::vector<std::byte> after = random_bytes(random, kBytes);
    const std::uint32_t sum_before = checksum(before, 1);
    const std::uint32_t sum_after = checksum(after, 2);
    for (int round = 0; round < 2000; ++round) {
      std::vector<std::byte> torn = before;
      for (std::size_t at = 0; at < kBytes; at += piece) {
        if (random.below(2) == 0) continue;
        for (std::size_t i = at; i < std::min(at + piece, kBytes); ++i) torn[i] = after[i];
      }
      EXPECT_TRUE(torn == before || checksum(torn, 1) != sum_before);
      EXPECT_TRUE(torn == after || checksum(torn, 2) != sum_after);
    }
  }
}

// The changes that sums and polynomials of words miss: one bit in two words, words
// exchanged, the same step in all words.
TEST(Checksum, ChangesWithAPatternAreNoticed) {
  constexpr std::size_t kWords = 36;
  std::vector<std::uint64_t> words(kWords, 0x3ff0000000000000);
  const auto sum_of = [](const std::vector<std::uint64_t>& of) {
    return checksum(std::as_bytes(std::span(of)), 9);
  };
  std::unordered_set<std::uint32_t> sums{sum_of(words)};
  for (std::size_t i = 0; i < kWords; ++i) {
    for (std::size_t j = i + 1; j < kWords; ++j) {
      for (const std::uint64_t change : {std::uint64_t{1} << 63, std::uint64_t{1}, std::uint64_t{1} << 32}) {
        auto changed = words;
        changed[i] ^= change;
        changed[j] ^= change;
        EXPECT_TRUE(sums.insert(sum_of(changed)).second) << i << ' ' << j << ' ' << change;
      }
    }
  }
}

// With a good spread, collisions among n sums are n² / 2^33: 2.3 expected for 2^17 · 1.09;
// more than 24 happen by chance once in 10^15 runs.
TEST(Checksum, SumsOfSimilarPayloadsSpreadOverAll32Bits) {
  std::unordered_set<std::uint32_t> sums;
  std::size_t collisions = 0;
  std::vector<std::uint64_t> words(8);
  for (std::uint64_t i = 0; i < 140'000; ++i) {
    words[i % 8] = i;
    if (!sums.insert(checksum(std::as_bytes(std::span(words)), 3)).second) ++collisions;
  }
  EXPECT_LE(collisions, 24u);
}

TEST(Checksum, CopiesOnTheWayWhatItIsAskedFor) {
  Prng random(testing::test_seed());
  for (const std::size_t count : {0u, 1u, 15u, 16u, 47u, 48u, 49u, 96u, 100u, 244u, 2292u}) {
    const std::vector<std::byte> bytes = random_bytes(random, count);
    const std::uint64_t seed = random();
    for (int i = 0; i < 20; ++i) {
      const std::size_t wanted = i == 0 ? count : random.below(count + 1);
      std::vector<std::byte> out(wanted + 16, std::byte{0xee});
      EXPECT_EQ(checksum_and_copy(bytes, seed, std::span(out).first(wanted)), checksum(bytes, seed));
      EXPECT_TRUE(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(wanted), bytes.begin()));
      EXPECT_EQ(std::ranges::count(std::span(out).subspan(wanted), std::byte{0xee}), 16) << "nothing more";
    }
  }
}

}  // namespace
}  // namespace yonder::node
