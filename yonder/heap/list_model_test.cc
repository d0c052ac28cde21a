// far::list against std::list, with a budget of five percent and a heap that is shaken all the
// time.
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/list.h"
#include "yonder/heap/string.h"
#include "yonder/heap/test_support.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

// Twenty times the local memory, five times under a sanitizer.
constexpr std::size_t kData = testing::scaled(kMuchDataBytes, std::size_t{4});

// Freed pages are counted until the background has freed them.
std::uint64_t live_pages_after_cleaning(Heap& heap) {
  std::uint64_t pages = heap.stats().live_pages;
  for (int round = 0; round < 1000 && pages > 64; ++round) {
    heap.evacuate();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pages = heap.stats().live_pages;
  }
  return pages;
}

TEST(List, AddsAndRemovesAtBothEnds) {
  const auto heap = make_small_heap(Mode::kHybrid);
  list<int> numbers;
  EXPECT_TRUE(numbers.begin() == numbers.end());
  for (int i = 0; i < 3000; ++i) {
    numbers.push_back(i);
    numbers.push_front(-1 - i);
  }
  EXPECT_EQ(*numbers.read_front(), -3000);
  EXPECT_EQ(*numbers.read_back(), 2999);
  int expected = -3000;
  numbers.for_each([&](int& item) { ASSERT_EQ(item, expected++); });
  for (int i = 2999; i >= 0; --i) {
    ASSERT_EQ(numbers.pop_back(), i);
    ASSERT_EQ(numbers.pop_front(), -1 - i);
  }
  EXPECT_TRUE(numbers.empty());
}

TEST(List, HasFullChunksWhenItGrowsAtTheEnd) {
  const auto heap = make_small_heap(Mode::kHybrid);
  list<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < 512 * 100; ++i) numbers.push_back(i);
  // A record for each of 100 chunks, and room for as many again.
  EXPECT_LE(numbers.local_bytes(), 24u * 128);
}

TEST(List, JoinsChunksThatAreNearlyEmpty) {
  const auto heap = make_small_heap(Mode::kHybrid);
  list<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < 512 * 200; ++i) numbers.push_back(i);
  // All but one in 64: without joining, 200 chunks of eight items each would be left.
  std::uint64_t number = 0;
  for (auto at = numbers.begin(); at != numbers.end(); ++number)
    at = number % 64 == 0 ? numbers.next(at) : numbers.erase(at);
  ASSERT_EQ(numbers.size(), 1600u);
  std::uint64_t expected = 0;
  numbers.for_each([&](std::uint64_t item) {
    ASSERT_EQ(item, expected);
    expected += 64;
  });
  // Two neighbours are more than half a chunk: at most 13. Up to 32 pages wait to be freed.
  EXPECT_LE(live_pages_after_cleaning(*heap), 64u);
}

class ListModel : public ::testing::TestWithParam<Mode> {};

template <typename T>
struct Twins {
  list<T> far;
  std::list<std::conditional_t<std::is_same_v<T, string>, std::string, T>> near;
  typename list<T>::cursor at = far.end();
  decltype(near.begin()) near_at = near.end();

  // Some steps from where it is, in either direction.
  void wander(Prng& random) {
    for (std::uint64_t steps = random.below(300); steps != 0; --steps) {
      if (random.below(3) != 0) {
        if (near_at == near.end()) return;
        at = far.next(at);
        ++near_at;
      } else {
        if (near_at == near.begin()) return;
        at = far.previous(at);
        --near_at;
      }
    }
  }
  void restart(bool from_end) {
    at = from_end ? far.end() : far.begin();
    near_at = from_end ? near.end() : near.begin();
  }
};

TEST_P(ListModel, OfNumbers) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  Prng random(testing::test_seed());
  Twins<std::uint64_t> twins;
  auto& [far, near, at, near_at] = twins;
  for (std::size_t i = 0; i < kData / 8; ++i) {
    near.push_back(random());
    far.push_back(near.back());
  }
  twins.restart(false);
  const int steps = testing::scaled(3000);
  for (int step = 0; step < steps; ++step) {
    twins.wander(random);
    if (random.below(50) == 0) twins.restart(random.below(2) == 0);
    const std::uint64_t burst = random.below(40);
    const std::uint64_t what = random.below(3);
    for (std::uint64_t i = 0; i < burst; ++i) {
      if (what == 0) {
        const std::uint64_t value = random();
        at = far.insert(at, value);
        near_at = near.insert(near_at, value);
      } else if (near_at != near.end()) {
        ASSERT_EQ(*far.read(at), *near_at);
        if (what == 1) {
          at = far.erase(at);
          near_at = near.erase(near_at);
        } else {
          *far.write(at) = *near_at = random();
        }
      }
    }
    ASSERT_EQ(far.size(), near.size());
    ASSERT_EQ(at == far.end(), near_at == near.end());
  }
  auto twin = near.begin();
  std::as_const(far).for_each([&](std::uint64_t item) { ASSERT_EQ(item, *twin++); });
  ASSERT_EQ(twin, near.end());
}

// Items with destructors; nearly all of them are erased, so that chunks join.
TEST_P(ListModel, OfTexts) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  Prng random(testing::test_seed());
  Twins<string> twins;
  auto& [far, near, at, near_at] = twins;
  const auto insert = [&] {
    const std::string text(random.below(200), static_cast<char>('a' + random.below(26)));
    at = far.insert(at, string::make(text));
    near_at = near.insert(near_at, text);
  };
  for (std::size_t i = 0; i < kData / 120; ++i) {
    insert();
    if (random.below(20) == 0) twins.wander(random);
  }
  ASSERT_EQ(far.size(), near.size());
  twins.restart(false);
  while (near_at != near.end()) {
    ASSERT_EQ(*far.read(at), *near_at);
    if (random.below(50) == 0) {
      at = far.next(at);
      ++near_at;
    } else {
      at = far.erase(at);
      near_at = near.erase(near_at);
    }
  }
  list<string> moved;
  moved.push_back(string::make("goes when the other comes"));
  moved = std::move(far);
  auto twin = near.begin();
  moved.for_each([&](const string& text) { ASSERT_EQ(text, *twin++); });
  ASSERT_EQ(twin, near.end());
}

INSTANTIATE_TEST_SUITE_P(Modes, ListModel, all_modes(), name_of_mode);

}  // namespace
}  // namespace yonder::heap
