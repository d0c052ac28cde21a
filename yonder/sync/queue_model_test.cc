// The real queues: random operations against a naive twin, and all interleavings
// the seeded scheduler comes up with, on modelled store buffers.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

#include "yonder/sync/mpsc_queue.h"
#include "yonder/sync/spsc_queue.h"
#include "yonder/testing/deterministic_scheduler.h"
#include "yonder/testing/seed.h"
#include "yonder/testing/weak_atomics.h"

namespace yonder::sync {
namespace {

using testing::DeterministicScheduler;
using testing::SimAtomics;
using testing::SimPayload;
using testing::test_seed;
using testing::WeakAtomics;

template <typename Queue>
void compare_with_deque() {
  std::mt19937_64 random(test_seed());
  Queue queue(8);
  std::deque<int> twin;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      ASSERT_EQ(queue.try_push(i), twin.size() < 8);
      if (twin.size() < 8) twin.push_back(i);
    } else {
      std::vector<int> batch(random() % 4);
      const std::size_t count = queue.pop(batch);
      ASSERT_EQ(count, std::min(batch.size(), twin.size()));
      for (std::size_t k = 0; k < count; ++k) {
        ASSERT_EQ(batch[k], twin.front());
        twin.pop_front();
      }
    }
    ASSERT_EQ(queue.empty(), twin.empty());
  }
}

TEST(QueueModel, SpscBehavesLikeABoundedDeque) { compare_with_deque<SpscQueue<int>>(); }
TEST(QueueModel, MpscBehavesLikeABoundedDeque) { compare_with_deque<MpscQueue<int>>(); }

constexpr std::uint64_t kPerProducer = 6;

// Elements carry producer * 1000 + number, numbers from 1 up.
template <typename Queue>
std::vector<std::uint64_t> run_queue(std::uint64_t seed, std::uint64_t producers, std::size_t capacity) {
  Queue queue(capacity);
  std::vector<std::uint64_t> popped;
  std::vector<std::function<void()>> bodies;
  for (std::uint64_t producer = 1; producer <= producers; ++producer) {
    bodies.emplace_back([&queue, producer] {
      for (std::uint64_t n = 1; n <= kPerProducer; ++n) {
        while (!queue.try_push(SimPayload(producer * 1000 + n))) {
        }
      }
    });
  }
  bodies.emplace_back([&] {
    while (popped.size() < producers * kPerProducer) {
      SimPayload value;
      if (queue.try_pop(value)) popped.push_back(value.get());
    }
  });
  DeterministicScheduler(seed).run(std::move(bodies));
  return popped;
}

// The checker: each producer's elements, all of them, once, in order.
bool is_valid_history(const std::vector<std::uint64_t>& popped, std::uint64_t producers) {
  std::map<std::uint64_t, std::uint64_t> last;
  for (const std::uint64_t value : popped)
    if (value % 1000 != ++last[value / 1000]) return false;
  return last.size() == producers && popped.size() == producers * kPerProducer;
}

TEST(QueueModel, SpscKeepsOrderAndLosesNothingUnderEverySchedule) {
  for (std::uint64_t i = 0; i < 400; ++i) {
    const std::size_t capacity = std::size_t{1} << (i % 3);
    const auto popped = run_queue<SpscQueue<SimPayload, SimAtomics>>(test_seed() + i, 1, capacity);
    ASSERT_TRUE(is_valid_history(popped, 1)) << "seed " << test_seed() + i;
  }
}

TEST(QueueModel, MpscKeepsOrderAndLosesNothingUnderEverySchedule) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::size_t capacity = std::size_t{2} << (i % 2);
    const auto popped = run_queue<MpscQueue<SimPayload, SimAtomics>>(test_seed() + i, 2, capacity);
    ASSERT_TRUE(is_valid_history(popped, 2)) << "seed " << test_seed() + i;
  }
}

// The same queue with every release weakened to relaxed must be caught: otherwise
// the two tests above would prove nothing.
TEST(QueueModel, AMissingReleaseIsFound) {
  int wrong_spsc = 0;
  int wrong_mpsc = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    wrong_spsc +=
        is_valid_history(run_queue<SpscQueue<SimPayload, WeakAtomics>>(test_seed() + i, 1, 2), 1) ? 0 : 1;
    wrong_mpsc +=
        is_valid_history(run_queue<MpscQueue<SimPayload, WeakAtomics>>(test_seed() + i, 1, 2), 1) ? 0 : 1;
  }
  EXPECT_GT(wrong_spsc, 0);
  EXPECT_GT(wrong_mpsc, 0);
}

}  // namespace
}  // namespace yonder::sync
