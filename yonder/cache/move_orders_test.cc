#include "yonder/cache/move_orders.h"

#include <gtest/gtest.h>

namespace yonder::cache {
namespace {

using segment::ProcessId;

TEST(MoveOrders, AreTakenByTheOwnerInOrder) {
  MoveOrders orders;
  const std::uint64_t first = orders.add(3, ProcessId(1), ProcessId(2)).value();
  const std::uint64_t second = orders.add(4, ProcessId(1), ProcessId(2)).value();
  EXPECT_FALSE(orders.take(ProcessId(2)));
  EXPECT_EQ(orders.take(ProcessId(1))->id, first);
  EXPECT_EQ(orders.take(ProcessId(1))->id, second);
  EXPECT_FALSE(orders.take(ProcessId(1)));
}

TEST(MoveOrders, OnePerPartitionIsOpen) {
  MoveOrders orders;
  const std::uint64_t id = orders.add(3, ProcessId(1), ProcessId(2)).value();
  EXPECT_EQ(orders.add(3, ProcessId(1), ProcessId(3)).error(), ErrorCode::kAlreadyExists);
  orders.take(ProcessId(1));
  EXPECT_EQ(orders.add(3, ProcessId(1), ProcessId(3)).error(), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(orders.finish(id, ErrorCode::kOk));
  EXPECT_TRUE(orders.add(3, ProcessId(2), ProcessId(3)));
}

TEST(MoveOrders, CanBeCancelledUntilTheyRun) {
  MoveOrders orders;
  const std::uint64_t id = orders.add(3, ProcessId(1), ProcessId(2)).value();
  const std::uint64_t other = orders.add(4, ProcessId(1), ProcessId(2)).value();
  ASSERT_TRUE(orders.cancel(id));
  EXPECT_EQ(orders.take(ProcessId(1))->id, other);
  EXPECT_EQ(orders.cancel(other).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(orders.cancel(99).error(), ErrorCode::kNotFound);
  EXPECT_EQ(orders.finish(id, ErrorCode::kOk).error(), ErrorCode::kNotFound);
}

TEST(MoveOrders, WaitWhilePaused) {
  MoveOrders orders;
  orders.add(3, ProcessId(1), ProcessId(2)).value();
  orders.set_paused(true);
  EXPECT_FALSE(orders.take(ProcessId(1)));
  orders.set_paused(false);
  EXPECT_TRUE(orders.take(ProcessId(1)));
}

TEST(MoveOrders, KeepABoundedHistory) {
  MoveOrders orders;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const std::uint64_t id = orders.add(i, ProcessId(1), ProcessId(2)).value();
    orders.take(ProcessId(1));
    ASSERT_TRUE(orders.finish(id, i % 2 == 0 ? ErrorCode::kOk : ErrorCode::kConnectionLost));
  }
  const std::vector<MoveOrder> listed = orders.list();
  EXPECT_EQ(listed.size(), MoveOrders::kKept);
  EXPECT_EQ(listed.back().state, OrderState::kFailed);
  EXPECT_EQ(listed.back().error, ErrorCode::kConnectionLost);
  MoveOrders full;
  for (std::uint32_t i = 0; i < MoveOrders::kKept; ++i) full.add(i, ProcessId(1), ProcessId(2)).value();
  EXPECT_EQ(full.add(999, ProcessId(1), ProcessId(2)).error(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace yonder::cache
