#include "yonder/heap/vector.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "yonder/heap/array.h"
#include "yonder/heap/test_support.h"
#include "yonder/heap/unique_ptr.h"

namespace yonder::heap {
namespace {

TEST(Vector, KeepsWhatWasAdded) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<int> numbers;
  EXPECT_TRUE(numbers.empty());
  for (int i = 0; i < 5000; ++i) numbers.push_back(i);
  ASSERT_EQ(numbers.size(), 5000u);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(numbers.get(static_cast<std::size_t>(i)), i);
  *numbers.write(7) = -7;
  EXPECT_EQ(*numbers.read(7), -7);
  numbers.pop_back();
  EXPECT_EQ(numbers.size(), 4999u);
}

TEST(Vector, OfOneChunkUsesNoLocalMemoryAndIsSmall) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<std::uint64_t> numbers;
  numbers.push_back(1);
  EXPECT_EQ(numbers.capacity(), 8u);  // 64 bytes
  for (std::uint64_t i = 1; i < 512; ++i) numbers.push_back(i);
  EXPECT_EQ(numbers.capacity(), 512u);
  EXPECT_EQ(numbers.local_bytes(), 0u);
  numbers.resize(512 * 100);
  EXPECT_LE(numbers.local_bytes(), 16u * 100);
}

TEST(Vector, ReservesOnceForAll) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<std::uint64_t> numbers;
  numbers.reserve(100);
  EXPECT_EQ(numbers.capacity(), 128u);
  numbers.reserve(1000);
  EXPECT_EQ(numbers.capacity(), 1024u);
  EXPECT_EQ(numbers.size(), 0u);
}

TEST(Vector, FreesItsMemoryWhenItGoesOrIsMovedOver) {
  const auto heap = make_small_heap(Mode::kPaging);
  // Each is 16 MiB of 64: without freeing, the fifth would not fit.
  vector<std::uint64_t> numbers;
  for (int round = 0; round < 10; ++round) {
    vector<std::uint64_t> others;
    ASSERT_TRUE(others.try_resize(2u << 20));
    numbers = std::move(others);
    EXPECT_TRUE(others.empty());  // NOLINT: moved from is empty
  }
  EXPECT_EQ(numbers.get(numbers.size() - 1), 0u);
}

TEST(Vector, SaysWhenFarMemoryIsFullAndStaysAsItWas) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<std::uint64_t> numbers;
  numbers.push_back(5);
  const Result<void> grown = numbers.try_resize((65u << 20) / 8);
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(numbers.size(), 1u);
  EXPECT_EQ(numbers.get(0), 5u);
  numbers.clear();
  EXPECT_TRUE(numbers.try_resize(1000));
}

TEST(Vector, DestroysItemsOnce) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<unique_ptr<int>> pointers;
  for (int i = 0; i < 3000; ++i) pointers.push_back(make_unique<int>(i));
  pointers.resize(100);
  EXPECT_EQ(*pointers.read(99)->read(), 99);
  EXPECT_EQ(pointers.size(), 100u);
  pointers.clear();
  EXPECT_EQ(pointers.capacity(), 0u);
}

TEST(Vector, HoldsVectors) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<vector<int>> rows(300);
  for (int value = 0; value < 30'000; ++value)
    rows.write(static_cast<std::size_t>(value % 300))->push_back(value);
  for (std::size_t row = 0; row < 300; ++row) {
    const auto numbers = rows.read(row);
    ASSERT_EQ(numbers->size(), 100u);
    for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(numbers->get(i), static_cast<int>(i * 300 + row));
  }
}

struct Tree {
  int value = 0;
  vector<Tree> children;
};

}  // namespace
}  // namespace yonder::heap

YONDER_FAR_TYPE(yonder::heap::Tree, value, children);

namespace yonder::heap {
namespace {

TEST(Vector, MayHoldItsOwnKind) {
  const auto heap = make_small_heap(Mode::kHybrid);
  Tree root;
  for (int i = 0; i < 50; ++i) {
    root.children.emplace_back(i);
    const auto child = root.children.write(static_cast<std::size_t>(i));
    for (int j = 0; j < 50; ++j) child->children.emplace_back(i * 50 + j);
  }
  EXPECT_EQ(root.children.read(49)->children.read(49)->value, 2499);
}

TEST(Vector, SurvivesAConstructorThatThrows) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<Thrower> items;
  items.emplace_back(false);
  EXPECT_THROW(items.emplace_back(true), std::runtime_error);
  EXPECT_EQ(items.size(), 1u);
}

TEST(Vector, ClonesDeeply) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<int> numbers(3000);
  const vector<int> copy = numbers.clone();
  numbers.set(2999, 1);
  EXPECT_EQ(copy.get(2999), 0);
  EXPECT_EQ(copy.size(), 3000u);
}

TEST(Vector, AppendsOverChunkBorders) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<std::uint16_t, 64> numbers;
  const std::vector<std::uint16_t> some = {1, 2, 3, 4, 5, 6, 7};
  for (int i = 0; i < 100; ++i) numbers.append(some);
  ASSERT_EQ(numbers.size(), 700u);
  for (std::size_t i = 0; i < 700; ++i) ASSERT_EQ(numbers.get(i), i % 7 + 1);
}

TEST(Vector, ScansMarkWhatTheyTouchedAsFirstToLeave) {
  // Pages leave 64 at a time: local memory is many times that.
  const auto heap = Heap::create(
      {.local = Bytes(1024 * kPageBytes), .far = Bytes(std::uint64_t{64} << 20), .mode = Mode::kPaging});
  ASSERT_TRUE(heap);
  // Two fifths of local memory that is used all the time, and three times of it that is scanned.
  constexpr std::size_t kHotPages = 400;
  vector<std::uint64_t> hot(kHotPages * 512);
  vector<std::uint64_t> cold(std::size_t{3} * 1024 * 512);
  const auto misses_of_hot = [&](Scan scan) {
    std::uint64_t misses = 0;
    std::size_t turn = 0;
    hot.for_each([](std::uint64_t) {});
    for (const auto& chunk : cold.chunks(scan)) {
      EXPECT_EQ(chunk[0], 0u);
      const std::uint64_t before = (*heap)->stats().page_ins;
      EXPECT_EQ(hot.get(turn++ % kHotPages * 512), 0u);
      misses += (*heap)->stats().page_ins - before;
    }
    return misses;
  };
  const std::uint64_t once = misses_of_hot(Scan::kOnce);
  const std::uint64_t keep = misses_of_hot(Scan::kKeep);
  EXPECT_LT(once, keep / 4);  // Measured: 0 of 3072 against 650 to 800.
}

TEST(Span, IsAPartOfAVector) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<int> numbers;
  for (int i = 0; i < 5000; ++i) numbers.push_back(i);
  const span<int> part = numbers.all().subspan(1000, 3000);
  EXPECT_EQ(part.size(), 3000u);
  EXPECT_EQ(part.get(0), 1000);
  EXPECT_EQ(part.last(1).get(0), 3999);
  part.set(1, -1);
  EXPECT_EQ(numbers.get(1001), -1);
  int expected = 1000;
  part.for_each([&](int& item) {
    EXPECT_EQ(item == -1 ? 1001 : item, expected++);
    item = 0;
  });
  EXPECT_EQ(expected, 4000);
  EXPECT_EQ(numbers.get(999), 999);
  EXPECT_EQ(numbers.get(3999), 0);
  EXPECT_EQ(numbers.get(4000), 4000);
}

TEST(Span, OfNothingHasNoChunks) {
  const span<const int> none;
  for (const auto& chunk : none.chunks()) FAIL() << chunk.size();
  const auto heap = make_small_heap(Mode::kHybrid);
  const vector<int> empty;
  for (const auto& chunk : empty.chunks()) FAIL() << chunk.size();
}

TEST(Span, OfAConstantVectorReads) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<int> numbers(10);
  const span<const int> view = numbers.all();
  EXPECT_EQ(*view.read(9), 0);
  static_assert(std::is_same_v<decltype(std::as_const(numbers).all()), span<const int>>);
}

TEST(Array, HasAllItsItemsFromTheBeginning) {
  const auto heap = make_small_heap(Mode::kHybrid);
  array<double, 10'000> grid;
  EXPECT_EQ(grid.size(), 10'000u);
  EXPECT_EQ(grid.get(9999), 0.0);
  grid.for_each([next = 0.0](double& x) mutable { x = next++; });
  EXPECT_EQ(grid.get(9999), 9999.0);
  double sum = 0;
  for (const auto& chunk : grid.chunks())
    for (const double x : chunk) sum += x;
  EXPECT_EQ(sum, 9999.0 * 10'000 / 2);
}

TEST(Array, SaysWhenItDoesNotFit) {
  const auto heap = make_small_heap(Mode::kHybrid);
  const auto made = array<double, (65u << 20) / 8>::try_create();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace yonder::heap
