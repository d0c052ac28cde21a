// far::vector and far::span against std::vector, with a budget of five percent and a heap that
// is shaken all the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/array.h"
#include "yonder/heap/test_support.h"
#include "yonder/heap/unique_ptr.h"
#include "yonder/heap/vector.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

// Twenty times the local memory, five times under a sanitizer.
constexpr std::size_t kData = testing::scaled(kMuchDataBytes, std::size_t{4});

// 24 bytes: no power of two.
struct Odd {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint32_t c = 0;
  friend bool operator==(const Odd&, const Odd&) = default;
};

template <typename T>
T random_item(Prng& random) {
  if constexpr (std::is_same_v<T, Odd>)
    return {.a = random(), .b = random(), .c = static_cast<std::uint32_t>(random())};
  else
    return static_cast<T>(random());
}

template <typename T, std::size_t kChunkBytes>
class Twins {
 public:
  explicit Twins(std::size_t items) : most_(items * 5 / 4) {
    std::vector<T> some(items);
    for (T& item : some) item = random_item<T>(random_);
    far_.append(some);
    near_ = some;
  }

  void step() {
    const std::size_t at = near_.empty() ? 0 : random_.below(near_.size());
    switch (random_.below(12)) {
      case 0:
      case 1: {
        const T item = random_item<T>(random_);
        far_.push_back(item);
        near_.push_back(item);
        break;
      }
      case 2:
        if (near_.empty()) break;
        far_.pop_back();
        near_.pop_back();
        break;
      case 3:
      case 4:
        if (near_.empty()) break;
        near_[at] = random_item<T>(random_);
        far_.set(at, near_[at]);
        break;
      case 5:
        change_length();
        break;
      case 6:
        compare_part(at);
        break;
      default:
        if (near_.empty()) break;
        ASSERT_EQ(*far_.read(at), near_[at]) << at;
    }
    ASSERT_EQ(far_.size(), near_.size());
    ASSERT_GE(far_.capacity(), far_.size());
  }

  void compare() const {
    ASSERT_EQ(far_.size(), near_.size());
    std::size_t next = 0;
    for (const auto& chunk : far_.chunks(Scan::kOnce)) {
      ASSERT_LE(next + chunk.size(), near_.size());
      ASSERT_TRUE(std::equal(chunk.begin(), chunk.end(), near_.begin() + static_cast<std::ptrdiff_t>(next)));
      next += chunk.size();
    }
    ASSERT_EQ(next, near_.size());
  }

  void clone_and_move() {
    vector<T, kChunkBytes> copy = far_.clone();
    far_.clear();
    far_ = std::move(copy);
    compare();
  }

 private:
  void change_length() {
    const std::size_t change = random_.below(2000);
    const bool grows = near_.size() < change || (near_.size() + change < most_ && random_.below(2) == 0);
    const std::size_t size = grows ? near_.size() + change : near_.size() - change;
    far_.resize(size);
    near_.resize(size);
  }
  void compare_part(std::size_t first) {
    const std::size_t count = std::min<std::size_t>(random_.below(3000), near_.size() - first);
    std::size_t next = first;
    far_.all().subspan(first, count).for_each([&](T& item) {
      ASSERT_EQ(item, near_[next]);
      item = near_[next] = random_item<T>(random_);
      ++next;
    });
    ASSERT_EQ(next, first + count);
  }

  const std::size_t most_;
  Prng random_{testing::test_seed()};
  vector<T, kChunkBytes> far_;
  std::vector<T> near_;
};

class VectorModel : public ::testing::TestWithParam<Mode> {
 public:
  template <typename T, std::size_t kChunkBytes>
  void run() {
    const auto heap = make_small_heap(GetParam());
    Twins<T, kChunkBytes> twins(kData / sizeof(T));
    {
      const Shaker shaker(*heap);
      const int steps = testing::scaled(6000);
      for (int step = 0; step < steps && !HasFatalFailure(); ++step) twins.step();
      twins.compare();
    }
    twins.clone_and_move();
  }
};

TEST_P(VectorModel, OfWords) { run<std::uint64_t, kPageBytes>(); }
TEST_P(VectorModel, OfItemsThatLeaveARest) { run<Odd, kPageBytes>(); }
TEST_P(VectorModel, InSmallChunks) { run<std::uint32_t, 256>(); }

TEST_P(VectorModel, ArrayOfWords) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  Prng random(testing::test_seed());
  constexpr std::size_t kItems = kData / 8;
  array<std::uint64_t, kItems> far;
  std::vector<std::uint64_t> near(kItems);
  const int steps = testing::scaled(20'000);
  for (int step = 0; step < steps; ++step) {
    const std::size_t at = random.below(kItems);
    ASSERT_EQ(far.get(at), near[at]);
    if (random.below(2) == 0) far.set(at, near[at] = random());
  }
  std::size_t next = 0;
  std::as_const(far).for_each([&](std::uint64_t item) { ASSERT_EQ(item, near[next++]); });
}

// Items with destructors, which are pointers that change when their objects move.
TEST_P(VectorModel, OfFarPointers) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  Prng random(testing::test_seed());
  vector<unique_ptr<Odd>> far;
  std::vector<Odd> near;
  // 8 bytes of pointer and 32 of object each.
  constexpr std::size_t kItems = kData / 40;
  for (std::size_t i = 0; i < kItems; ++i) {
    near.push_back(random_item<Odd>(random));
    far.push_back(make_unique<Odd>(near.back()));
  }
  const int steps = testing::scaled(20'000);
  for (int step = 0; step < steps; ++step) {
    const std::size_t at = random.below(near.size());
    ASSERT_EQ(*far.read(at)->read(), near[at]);
    const std::uint64_t what = random.below(8);
    if (what == 0) {
      near[at] = random_item<Odd>(random);
      *far.write(at) = make_unique<Odd>(near[at]);
    } else if (what == 1) {
      far.pop_back();
      near.pop_back();
    } else if (what == 2) {
      near[at].a = random();
      far.read(at)->write()->a = near[at].a;
    }
  }
  std::size_t next = 0;
  far.for_each([&](const unique_ptr<Odd>& item) { ASSERT_EQ(*item.read(), near[next++]); });
}

// What the header promises: any number of readers.
TEST_P(VectorModel, IsReadByManyThreads) {
  const auto heap = make_small_heap(GetParam());
  vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < kData / 8; ++i) numbers.push_back(i * 3);
  const Shaker shaker(*heap);
  const vector<std::uint64_t>& shared = numbers;
  const int steps = testing::scaled(20'000);
  std::vector<std::jthread> readers;
  for (unsigned t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      Prng random(testing::test_seed() + t);
      for (int step = 0; step < steps; ++step) {
        const std::uint64_t at = random.below(shared.size());
        ASSERT_EQ(shared.get(at), at * 3);
      }
      std::uint64_t next = 0;
      shared.for_each([&](std::uint64_t number) { ASSERT_EQ(number, 3 * next++); }, Scan::kOnce);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, VectorModel, all_modes(), name_of_mode);

}  // namespace
}  // namespace yonder::heap
