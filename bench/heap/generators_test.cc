// What the workloads are made of: keys, sizes, edges, words, and the compressor.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/heap/compress.h"
#include "bench/heap/graph.h"
#include "bench/heap/requests.h"
#include "bench/heap/words.h"
#include "yonder/testing/seed.h"

namespace yonder::bench::heap {
namespace {

TEST(CacheValueBytes, HaveTheQuantilesOfTheTrace) {
  Prng random(testing::test_seed());
  std::vector<std::uint32_t> bytes(20'000);
  for (std::uint32_t& each : bytes) each = cache_value_bytes(random);
  std::ranges::sort(bytes);
  const auto quantile = [&](double q) { return bytes[static_cast<std::size_t>(q * 20'000)]; };
  // Six standard errors of a share of 20,000 draws are less than 0.022.
  EXPECT_LE(quantile(.25 - .022), 127u);
  EXPECT_GE(quantile(.25 + .022), 127u);
  EXPECT_LE(quantile(.90 - .022), 191u);
  EXPECT_GE(quantile(.90 + .022), 191u);
  EXPECT_GE(bytes.front(), 64u);
  EXPECT_LE(bytes.back(), 3840u);
}

TEST(Scatter, IsABijection) {
  for (const std::uint64_t items : {1u, 2u, 10u, 97u, 1024u, 30'030u}) {
    const Scatter scatter(items);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < items; ++i) seen.insert(scatter(i));
    EXPECT_EQ(seen.size(), items);
    EXPECT_LT(*seen.rbegin(), items);
  }
}

// How often each key was asked for in `requests` requests.
std::map<std::uint64_t, int> counts_of(ChurningKeys& keys, Prng& random, int requests) {
  std::map<std::uint64_t, int> counts;
  for (int i = 0; i < requests; ++i) ++counts[keys.next(random)];
  return counts;
}

std::uint64_t hottest(const std::map<std::uint64_t, int>& counts) {
  return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
}

TEST(ChurningKeys, AreSkewedAndChangeWhatIsHot) {
  constexpr std::uint64_t kKeys = 100'000;
  Prng random(testing::test_seed());
  ChurningKeys keys(kKeys);
  const auto first = counts_of(keys, random, 50'000);
  std::vector<int> sorted;
  for (const auto& [key, count] : first) sorted.push_back(count);
  std::ranges::sort(sorted, std::greater());
  int top = 0;
  for (std::size_t i = 0; i < kKeys / 100; ++i) top += sorted[i];
  // A hundredth of the keys gets more than half; were all alike it would get a fiftieth or so.
  EXPECT_GT(top, 25'000);
  for (int i = 0; i < 200'000; ++i) keys.next(random);
  EXPECT_NE(hottest(counts_of(keys, random, 5'000)), hottest(first));
}

TEST(ChurningKeys, FollowFromTheSeed) {
  Prng one(7);
  Prng other(7);
  ChurningKeys keys(1000);
  ChurningKeys twin(1000);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(keys.next(one), twin.next(other));
}

TEST(EdgeStream, KeepsToItsThreadsVerticesWithoutLoops) {
  for (unsigned thread = 0; thread < 3; ++thread) {
    EdgeStream edges({.vertices = 100, .seed = testing::test_seed(), .thread = thread, .threads = 3});
    for (int i = 0; i < 2000; ++i) {
      const Edge edge = edges.next();
      ASSERT_EQ(edge.to % 3, thread);
      ASSERT_LT(edge.to, 100u);
      ASSERT_LT(edge.from, 100u);
      ASSERT_NE(edge.from, edge.to);
    }
  }
}

TEST(Words, FillAPageWithWholeWordsOfAVocabulary) {
  Words words(50, testing::test_seed());
  std::set<std::string> seen;
  for (int page = 0; page < 10; ++page) {
    std::vector<char> text(512);
    words.fill(text);
    EXPECT_EQ(text.back(), ' ');
    std::string word;
    for (const char letter : text) {
      if (letter != ' ') {
        word += letter;
        continue;
      }
      if (word.empty()) continue;
      EXPECT_GE(word.size(), 3u);
      EXPECT_LE(word.size(), kMaxWordBytes);
      seen.insert(std::exchange(word, ""));
    }
  }
  EXPECT_GT(seen.size(), 5u);
  EXPECT_LE(seen.size(), 50u);
}

std::vector<std::byte> random_bytes(Prng& random, std::size_t size, unsigned letters) {
  std::vector<std::byte> bytes(size);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random.below(letters));
  return bytes;
}

TEST(Compressor, GivesBackWhatWentIn) {
  Prng random(testing::test_seed());
  Compressor compressor;
  for (int i = 0; i < 300; ++i) {
    const auto in = random_bytes(random, random.below(5000), static_cast<unsigned>(random.between(1, 256)));
    const auto packed = compressor.compress(in);
    const auto out = decompress(packed);
    ASSERT_TRUE(out);
    ASSERT_EQ(*out, in);
  }
}

TEST(Compressor, MakesRepetitionsSmall) {
  Compressor compressor;
  const std::vector<std::byte> same(8192, std::byte{7});
  EXPECT_LT(compressor.compress(same).size(), 100u);
}

TEST(Decompress, RefusesWhatIsCutOff) {
  Compressor compressor;
  std::vector<std::byte> in(1000, std::byte{7});
  in.resize(1040, std::byte{9});
  const auto packed = compressor.compress(in);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    const auto out = decompress(packed.first(size));
    EXPECT_TRUE(!out || *out != in) << size;
  }
}

}  // namespace
}  // namespace yonder::bench::heap
