#include "yonder/heap/shared_ptr.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/test_support.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

struct Counted {
  explicit Counted(int& destroyed_of, std::uint64_t of) : destroyed(&destroyed_of), value(of) {}
  ~Counted() { ++*destroyed; }
  int* destroyed;
  std::uint64_t value;
  std::array<std::uint64_t, 6> more{};
};

struct Edge {
  std::uint64_t weight;
  shared_ptr<Counted> to;
};

}  // namespace
}  // namespace yonder::heap

YONDER_FAR_TYPE(yonder::heap::Counted, destroyed, value, more);
YONDER_FAR_TYPE(yonder::heap::Edge, weight, to);

namespace yonder::heap {
namespace {

TEST(SharedPtr, DestroysTheObjectWithItsLastOwner) {
  const auto heap = make_heap();
  int destroyed = 0;
  shared_ptr<Counted> a = make_shared<Counted>(destroyed, 7);
  {
    const shared_ptr<Counted> b = a;
    EXPECT_EQ(b.use_count(), 2u);
    EXPECT_TRUE(a == b);
  }
  EXPECT_EQ(a.use_count(), 1u);
  EXPECT_EQ(a.read()->value, 7u);
  shared_ptr<Counted> c = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: as std::shared_ptr, a moved one is empty.
  EXPECT_EQ(destroyed, 0);
  c = nullptr;
  EXPECT_EQ(destroyed, 1);
}

// Owners are far themselves, objects are fetched and moved under them.
TEST(SharedPtr, ManyFarOwnersSeeOneObject) {
  for (const Mode mode : {Mode::kHybrid, Mode::kPaging, Mode::kObject}) {
    const auto heap = make_heap({.mode = mode});
    int destroyed = 0;
    constexpr std::size_t kObjects = 3000;
    {
      std::vector<shared_ptr<Counted>> objects;
      for (std::size_t i = 0; i < kObjects; ++i) objects.push_back(make_shared<Counted>(destroyed, i));
      Prng random(testing::test_seed());
      std::vector<unique_ptr<Edge>> edges;
      std::vector<std::size_t> targets;
      for (int i = 0; i < 10'000; ++i) {
        targets.push_back(random.below(kObjects));
        edges.push_back(make_unique<Edge>(targets.back(), objects[targets.back()]));
      }
      objects.clear();
      for (int step = 0; step < 40'000; ++step) {
        const std::size_t i = random.below(edges.size());
        const auto edge = edges[i].read();
        ASSERT_EQ(edge->weight, targets[i]);
        ASSERT_EQ(edge->to.read()->value % kObjects, targets[i]);
        if (random.below(4) == 0) edge->to.write()->value += kObjects;
        if (random.below(100) == 0) heap->evacuate();
      }
    }
    EXPECT_EQ(destroyed, static_cast<int>(kObjects));
  }
}

TEST(SharedPtr, IsCopiedByManyThreads) {
  const auto heap = make_heap();
  int destroyed = 0;
  const shared_ptr<Counted> object = make_shared<Counted>(destroyed, 5);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const int rounds = testing::scaled(4000);
        for (int i = 0; i < rounds; ++i) {
          const shared_ptr<Counted> mine = object;
          ASSERT_EQ(mine.read()->value, 5u);
          (void)make_unique<std::array<std::byte, 2048>>();  // So that pages leave.
        }
      });
    }
  }
  EXPECT_EQ(object.use_count(), 1u);
  EXPECT_EQ(destroyed, 0);
}

}  // namespace
}  // namespace yonder::heap
