// Many threads, a local memory of three percent, an evacuator that never rests, and a checker at
// every dereference.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/test_support.h"
#include "yonder/heap/unique_ptr.h"
#include "yonder/sync/spin_lock.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

// Content follows from a number in it, so that every read is checked.
template <std::size_t kWords>
struct Pattern {
  explicit Pattern(std::uint64_t seed) { fill(seed); }
  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < kWords; ++i) words[i] = seed + i * 0x9e3779b97f4a7c15;
  }
  bool is_whole() const {
    for (std::size_t i = 0; i < kWords; ++i)
      if (words[i] != words[0] + i * 0x9e3779b97f4a7c15) return false;
    return true;
  }
  std::array<std::uint64_t, kWords> words;
};

struct Tree {
  explicit Tree(std::uint64_t seed) : pattern(seed) {}
  Pattern<3> pattern;
  unique_ptr<Pattern<16>> left;
  unique_ptr<Pattern<100>> right;
};

}  // namespace
}  // namespace yonder::heap

YONDER_FAR_TYPE(yonder::heap::Tree, pattern, left, right);

namespace yonder::heap {
namespace {

class HeapStress : public ::testing::TestWithParam<Mode> {};

TEST_P(HeapStress, EveryDereferenceSeesWholeObjects) {
  constexpr std::size_t kTrees = 6000;
  const auto made = Heap::create(
      {.local = Bytes(200 * kPageBytes), .far = Bytes(128 << 20), .mode = GetParam(), .evacuate_below = 0.9});
  ASSERT_TRUE(made);
  Heap& heap = **made;
  std::vector<unique_ptr<Tree>> trees;
  std::vector<sync::SpinLock> locks(kTrees);
  for (std::size_t i = 0; i < kTrees; ++i) trees.push_back(make_unique<Tree>(i));
  const Shaker evacuator(heap);
  const int steps = testing::scaled(40'000);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        Prng random(testing::test_seed() + t);
        for (int step = 0; step < steps; ++step) {
          const std::size_t i = random.below(kTrees);
          // Reads of pointers that nobody changes are concurrent; changes are behind a lock.
          const sync::SpinGuard lock(locks[i]);
          const auto tree = trees[i].write();
          ASSERT_TRUE(tree->pattern.is_whole());
          ASSERT_TRUE(!tree->left || tree->left.read()->is_whole());
          ASSERT_TRUE(!tree->right || tree->right.read()->is_whole());
          switch (random.below(6)) {
            case 0:
              tree->pattern.fill(random());
              break;
            case 1:
              tree->left = make_unique<Pattern<16>>(random());
              break;
            case 2:
              tree->right = make_unique<Pattern<100>>(random());
              break;
            case 3:
              if (tree->left) tree->left.write()->fill(random());
              break;
            case 4:
              tree->right.reset();
              break;
            default:
              break;
          }
        }
        Heap::leave_thread();
      });
    }
  }
}

// Objects that all threads read at once without locks: fetched, healed and moved under them.
TEST_P(HeapStress, ManyReadersOfOnePointer) {
  constexpr std::size_t kObjects = 20'000;
  const auto made = Heap::create(
      {.local = Bytes(100 * kPageBytes), .far = Bytes(64 << 20), .mode = GetParam(), .evacuate_below = 1.0});
  ASSERT_TRUE(made);
  Heap& heap = **made;
  std::vector<unique_ptr<Pattern<8>>> objects;
  for (std::size_t i = 0; i < kObjects; ++i) objects.push_back(make_unique<Pattern<8>>(i));
  const Shaker evacuator(heap);
  const int steps = testing::scaled(60'000);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        Prng random(testing::test_seed() + t);
        for (int step = 0; step < steps; ++step) {
          // A small part is hot, so that threads meet.
          const std::size_t i = random.below(2) == 0 ? random.below(64) * 300 : random.below(kObjects);
          const auto object = objects[i].read();
          ASSERT_TRUE(object->is_whole());
          ASSERT_EQ(object->words[0], i);
        }
        Heap::leave_thread();
      });
    }
  }
}

// Neighbours are used one after the other, written now and then, and what each must say is known:
// no copy of a page, no slot and no record may bring back an older version. Far memory is short,
// so that pages on the node are emptied, too.
TEST_P(HeapStress, NobodySeesAnOldVersion) {
  constexpr std::size_t kObjects = 6'000;  // 1.5 MiB
  constexpr std::size_t kRun = 12;
  const auto made =
      Heap::create({.local = Bytes(64 * kPageBytes), .far = Bytes(4 << 20), .mode = GetParam()});
  ASSERT_TRUE(made);
  std::vector<unique_ptr<Pattern<32>>> objects;
  std::vector<std::uint64_t> versions(kObjects);
  std::vector<sync::SpinLock> locks(kObjects / kRun);
  for (std::size_t i = 0; i < kObjects; ++i) {
    versions[i] = i;
    objects.push_back(make_unique<Pattern<32>>(i));
  }
  const int steps = testing::scaled(12'000);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Prng random(testing::test_seed() + t);
      std::size_t next = 0;
      for (int step = 0; step < steps; ++step) {
        // Hints are given a step early, and without the lock: others change what was asked for. One
        // thread is slow: what it knows of pages grows old while the others use their numbers again.
        const std::size_t run = std::exchange(next, random.below(kObjects / kRun));
        if (step % 2 == 0)
          for (std::size_t i = next * kRun; i < (next + 1) * kRun; ++i) objects[i].prefetch();
        if (t == 0 && step % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        const sync::SpinGuard lock(locks[run]);
        for (std::size_t i = run * kRun; i < (run + 1) * kRun; ++i) {
          const auto object = objects[i].read();
          ASSERT_TRUE(object->is_whole());
          ASSERT_EQ(object->words[0], versions[i]);
          if (random.below(4) == 0) objects[i].write()->fill(versions[i] = random());
        }
      }
      Heap::leave_thread();
    });
  }
  threads.clear();
  EXPECT_EQ((*made)->stats().objects_from_copies != 0, GetParam() == Mode::kHybrid);
  EXPECT_EQ((*made)->stats().objects_ahead_used != 0, GetParam() != Mode::kPaging);
  objects.clear();
}

TEST_P(HeapStress, ThreadsComeAndGo) {
  const auto made =
      Heap::create({.local = Bytes(256 * kPageBytes), .far = Bytes(64 << 20), .mode = GetParam()});
  ASSERT_TRUE(made);
  std::vector<unique_ptr<Pattern<16>>> objects;
  for (std::size_t i = 0; i < 20'000; ++i) objects.push_back(make_unique<Pattern<16>>(i));
  const int rounds = testing::scaled(50);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 20; ++t) {
      threads.emplace_back([&, seed = testing::test_seed() + static_cast<std::uint64_t>(round) * 20 + t] {
        Prng random(seed);
        std::vector<unique_ptr<Pattern<16>>> own;
        for (int step = 0; step < 50; ++step) {
          ASSERT_TRUE(objects[random.below(objects.size())].read()->is_whole());
          own.push_back(make_unique<Pattern<16>>(random()));
        }
        for (const auto& object : own) ASSERT_TRUE(object.read()->is_whole());
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, HeapStress, all_modes(), name_of_mode);

}  // namespace
}  // namespace yonder::heap
