// far::queue and far::stack against their std twins, with a budget of five percent and a heap
// that is shaken all the time.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/queue.h"
#include "yonder/heap/stack.h"
#include "yonder/heap/string.h"
#include "yonder/heap/test_support.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

// Twenty times the local memory, five times under a sanitizer.
constexpr std::size_t kData = testing::scaled(kMuchDataBytes, std::size_t{4});

TEST(Queue, GivesItemsInTheOrderTheyCame) {
  const auto heap = make_small_heap(Mode::kHybrid);
  queue<int> numbers;
  EXPECT_TRUE(numbers.empty());
  for (int i = 0; i < 5000; ++i) numbers.push(i);
  EXPECT_EQ(*numbers.read_front(), 0);
  *numbers.write_front() = -1;
  EXPECT_EQ(numbers.pop(), -1);
  for (int i = 1; i < 5000; ++i) ASSERT_EQ(numbers.pop(), i);
  EXPECT_TRUE(numbers.empty());
}

TEST(Queue, FreesTheChunksItHasPassed) {
  const auto heap = Heap::create({.local = Bytes(kSmallHeapBytes), .far = Bytes(1 << 20)});
  ASSERT_TRUE(heap);
  queue<std::uint64_t> numbers;
  // Twice the far memory goes through it.
  for (std::uint64_t i = 0; i < (2u << 20) / 8 / 16; ++i) {
    for (std::uint64_t j = 0; j < 16; ++j) ASSERT_TRUE(numbers.try_push(i * 16 + j));
    for (std::uint64_t j = 0; j < 16; ++j) ASSERT_EQ(numbers.pop(), i * 16 + j);
  }
  EXPECT_LE(numbers.local_bytes(), 32u);
}

TEST(Queue, SaysWhenFarMemoryIsFull) {
  const auto heap = make_small_heap(Mode::kHybrid);
  queue<std::array<std::byte, 4096>> pages;
  std::size_t pushed = 0;
  Result<void> done;
  while ((done = pages.try_push({}))) ++pushed;
  EXPECT_EQ(done.error(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(pages.size(), pushed);
  EXPECT_GT(pushed, 16'000u);
}

TEST(Stack, GivesTheLastItemFirst) {
  const auto heap = make_small_heap(Mode::kHybrid);
  stack<int> numbers;
  for (int i = 0; i < 5000; ++i) numbers.push(i);
  EXPECT_EQ(*numbers.read_top(), 4999);
  *numbers.write_top() = -1;
  EXPECT_EQ(numbers.pop(), -1);
  for (int i = 4998; i >= 0; --i) ASSERT_EQ(numbers.pop(), i);
  EXPECT_TRUE(numbers.empty());
}

class QueueModel : public ::testing::TestWithParam<Mode> {};

TEST_P(QueueModel, BehavesAsStdDeque) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  Prng random(testing::test_seed());
  queue<std::uint64_t> far;
  std::deque<std::uint64_t> near;
  for (std::size_t i = 0; i < kData / 8; ++i) {
    near.push_back(random());
    far.push(near.back());
  }
  const int steps = testing::scaled(200);
  for (int step = 0; step < steps; ++step) {
    // In bursts, so that its length wanders.
    const std::uint64_t burst = random.below(8000);
    const bool pushes = random.below(2) == 0;
    for (std::uint64_t i = 0; i < burst; ++i) {
      if (pushes) {
        near.push_back(random());
        far.push(near.back());
      } else if (!near.empty()) {
        ASSERT_EQ(*far.read_front(), near.front());
        ASSERT_EQ(far.pop(), near.front());
        near.pop_front();
      }
    }
    ASSERT_EQ(far.size(), near.size());
  }
  auto twin = near.begin();
  far.for_each([&](std::uint64_t item) { ASSERT_EQ(item, *twin++); });
  ASSERT_EQ(twin, near.end());
  queue<std::uint64_t> moved = std::move(far);
  ASSERT_EQ(moved.size(), near.size());
  ASSERT_TRUE(far.empty());  // NOLINT: moved from is empty
  moved.clear();
  moved.push(7);
  ASSERT_EQ(moved.pop(), 7u);
}

// Items with destructors: those that are left are freed with the container.
TEST_P(QueueModel, OfTexts) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  Prng random(testing::test_seed());
  queue<string> lines;
  stack<string> pile;
  std::deque<std::string> near_lines;
  std::vector<std::string> near_pile;
  const auto push = [&] {
    const std::string text(random.below(400), static_cast<char>('a' + random.below(26)));
    lines.push(string::make(text));
    pile.push(string::make(text));
    near_lines.push_back(text);
    near_pile.push_back(text);
  };
  // 200 bytes and a pointer in each of two.
  for (std::size_t i = 0; i < kData / 450; ++i) push();
  const int steps = testing::scaled(20'000);
  for (int step = 0; step < steps; ++step) {
    if (random.below(2) == 0) {
      push();
    } else if (!near_lines.empty()) {
      ASSERT_EQ(*pile.read_top(), near_pile.back());
      ASSERT_EQ(lines.pop(), near_lines.front());
      ASSERT_EQ(pile.pop(), near_pile.back());
      near_lines.pop_front();
      near_pile.pop_back();
    }
    ASSERT_EQ(lines.size(), near_lines.size());
    ASSERT_EQ(pile.size(), near_pile.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, QueueModel, all_modes(), name_of_mode);

}  // namespace
}  // namespace yonder::heap
