#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "yonder/sync/mpsc_queue.h"
#include "yonder/sync/spsc_queue.h"

namespace yonder::sync {
namespace {

template <typename Queue>
class QueueTest : public ::testing::Test {};
using Queues = ::testing::Types<SpscQueue<std::unique_ptr<int>>, MpscQueue<std::unique_ptr<int>>>;
TYPED_TEST_SUITE(QueueTest, Queues);

TYPED_TEST(QueueTest, IsFirstInFirstOutAndBounded) {
  TypeParam queue(4);
  EXPECT_EQ(queue.capacity(), 4u);
  EXPECT_TRUE(queue.empty());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.try_push(std::make_unique<int>(i)));
  auto fifth = std::make_unique<int>(4);
  EXPECT_FALSE(queue.try_push(std::move(fifth)));
  EXPECT_EQ(*fifth, 4) << "a refused element stays with the caller";
  std::unique_ptr<int> value;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue.try_pop(value));
    EXPECT_EQ(*value, i);
  }
  EXPECT_FALSE(queue.try_pop(value));
  EXPECT_TRUE(queue.try_push(std::move(fifth)));
}

TYPED_TEST(QueueTest, PopsInBatches) {
  TypeParam queue(8);
  for (int i = 0; i < 5; ++i) queue.try_push(std::make_unique<int>(i));
  std::array<std::unique_ptr<int>, 3> batch;
  EXPECT_EQ(queue.pop(batch), 3u);
  EXPECT_EQ(*batch[2], 2);
  EXPECT_EQ(queue.pop(batch), 2u);
  EXPECT_EQ(*batch[1], 4);
  EXPECT_EQ(queue.pop(batch), 0u);
}

TYPED_TEST(QueueTest, DestroysWhatIsLeft) {
  TypeParam queue(8);
  queue.try_push(std::make_unique<int>(1));  // A leak would be reported by ASan.
}

TYPED_TEST(QueueTest, TakesPowersOfTwoOnly) {
  EXPECT_DEATH(TypeParam(3), "power of two");
  EXPECT_DEATH(TypeParam(0), "power of two");
}

TEST(SpscQueue, PushesInBatchesAndTakesWhatFits) {
  SpscQueue<int> queue(4);
  std::array<int, 6> values = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(queue.push(values), 4u);
  EXPECT_EQ(queue.size(), 4u);
  int value = 0;
  ASSERT_TRUE(queue.try_pop(value));
  EXPECT_EQ(queue.push(std::span(values).subspan(4)), 1u);
  EXPECT_EQ(queue.push({}), 0u);
}

TEST(SpscQueue, CopiesAreFineToo) {
  SpscQueue<int> queue(1);
  const int seven = 7;
  EXPECT_TRUE(queue.try_push(seven));
  EXPECT_FALSE(queue.try_push(seven));
}

}  // namespace
}  // namespace yonder::sync
