// far::string against std::string, as items of a far::vector: text that moves, and text that
// lies in an object that moves.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/string.h"
#include "yonder/heap/test_support.h"
#include "yonder/heap/vector.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

// Twenty times the local memory, five times under a sanitizer.
constexpr std::size_t kData = testing::scaled(kMuchDataBytes, std::size_t{4});

std::string random_text(Prng& random, std::size_t most) {
  std::string text(random.below(most + 1), ' ');
  for (char& c : text) c = static_cast<char>('a' + random.below(26));
  return text;
}

TEST(String, IsInlineUpToFifteenBytesAndFarBeyond) {
  const auto heap = make_small_heap(Mode::kHybrid);
  string text;
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(text.str(), "");
  const std::uint64_t before = heap->stats().live_pages;
  for (std::size_t length = 0; length <= 15; ++length) {
    ASSERT_TRUE(text.try_assign(std::string(length, 'x')));
    ASSERT_EQ(text.str(), std::string(length, 'x'));
  }
  EXPECT_EQ(heap->stats().live_pages, before);
  for (std::size_t length = 16; length <= 4096; length += 255) {
    ASSERT_TRUE(text.try_assign(std::string(length, 'y')));
    ASSERT_EQ(text.str(), std::string(length, 'y'));
  }
  EXPECT_GT(heap->stats().live_pages, before);
}

TEST(String, RefusesMoreThanAPageAndStaysAsItWas) {
  const auto heap = make_small_heap(Mode::kHybrid);
  string text = string::make(std::string(4096, 'a'));
  const Result<void> appended = text.try_append("b");
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(text.size(), 4096u);
  EXPECT_FALSE(string::try_make(std::string(4097, 'a')));
}

TEST(String, MayBeMadeOfItself) {
  const auto heap = make_small_heap(Mode::kHybrid);
  string text = string::make("0123456789");
  ASSERT_TRUE(text.try_append(text.read()));
  EXPECT_EQ(text, "01234567890123456789");
  ASSERT_TRUE(text.try_assign(text.read().view().substr(5, 3)));
  EXPECT_EQ(text, "567");
  const string moved = std::move(text);
  EXPECT_EQ(moved, "567");
  EXPECT_TRUE(text.empty());  // NOLINT: moved from is empty
  EXPECT_LT(moved, "568");
  EXPECT_GT(moved, string::make("5669999999999999999999"));
}

class StringModel : public ::testing::TestWithParam<Mode> {};

TEST_P(StringModel, BehavesAsStdString) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  Prng random(testing::test_seed());
  vector<string> far;
  std::vector<std::string> near;
  // Half a kilobyte each on average, five megabytes together.
  constexpr std::size_t kTexts = kData / 500;
  for (std::size_t i = 0; i < kTexts; ++i) {
    near.push_back(random_text(random, random.below(3) == 0 ? 20 : 1400));
    far.push_back(string::make(near.back()));
  }
  const int steps = testing::scaled(20'000);
  for (int step = 0; step < steps; ++step) {
    const std::size_t at = random.below(kTexts);
    switch (random.below(5)) {
      case 0:
        near[at] = random_text(random, random.below(2) == 0 ? 20 : 1400);
        ASSERT_TRUE(far.write(at)->try_assign(near[at]));
        break;
      case 1: {
        const std::string more = random_text(random, 40);
        const bool fits = near[at].size() + more.size() <= string::kMaxBytes;
        ASSERT_EQ(far.write(at)->try_append(more).has_value(), fits);
        if (fits) near[at] += more;
        break;
      }
      case 2: {
        const std::size_t other = random.below(kTexts);
        ASSERT_EQ(*far.read(at) <=> *far.read(other), near[at] <=> near[other]);
        break;
      }
      case 3: {
        const std::size_t other = random.below(kTexts);
        std::swap(*far.write(at), *far.write(other));
        std::swap(near[at], near[other]);
        break;
      }
      default:
        ASSERT_EQ(*far.read(at), near[at]);
    }
    ASSERT_EQ(far.read(at)->size(), near[at].size());
  }
  std::size_t next = 0;
  far.for_each([&](const string& text) { ASSERT_EQ(text, near[next++]); });
}

TEST_P(StringModel, IsReadByManyThreads) {
  const auto heap = make_small_heap(GetParam());
  constexpr std::size_t kTexts = kData / 500;
  vector<string> texts;
  for (std::size_t i = 0; i < kTexts; ++i)
    texts.push_back(string::make(std::string(i % 1000, static_cast<char>('a' + i % 26))));
  const Shaker shaker(*heap);
  const int steps = testing::scaled(10'000);
  std::vector<std::jthread> readers;
  for (unsigned t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      Prng random(testing::test_seed() + t);
      for (int step = 0; step < steps; ++step) {
        const std::size_t i = random.below(kTexts);
        ASSERT_EQ(*std::as_const(texts).read(i), std::string(i % 1000, static_cast<char>('a' + i % 26)));
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, StringModel, all_modes(), name_of_mode);

}  // namespace
}  // namespace yonder::heap
