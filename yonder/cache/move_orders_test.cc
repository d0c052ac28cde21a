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
  EXPECT_EQ(orders.list().back().state, OrderState::kPaused);
  orders.set_paused(false);
  EXPECT_EQ(orders.list().back().state, OrderState::kQueued);
  EXPECT_TRUE(orders.take(ProcessId(1)));
}

TEST(MoveOrders, SayHowManyBytesAreLeftUntilAllHaveArrived) {
  MoveOrders orders;
  const std::uint64_t id = orders.add(3, ProcessId(1), ProcessId(2), 1000).value();
  EXPECT_EQ(orders.list().back().bytes_left, 1000u);
  orders.estimate(3, 2000);
  orders.estimate(4, 7);
  EXPECT_EQ(orders.list().back().bytes_left, 2000u);
  orders.take(ProcessId(1));
  ASSERT_TRUE(orders.finish(id, ErrorCode::kOk));
  EXPECT_EQ(orders.list().back().state, OrderState::kArriving);
  orders.arrived(3, ProcessId(2), 600, ErrorCode::kOk);
  orders.arrived(4, ProcessId(2), 7, ErrorCode::kOk);  // Another partition,
  orders.arrived(3, ProcessId(9), 7, ErrorCode::kOk);  // and another process.
  orders.estimate(3, 7);                               // The target knows better.
  EXPECT_EQ(orders.list().back().bytes_left, 600u);
  orders.arrived(3, ProcessId(2), 0, ErrorCode::kOk);
  EXPECT_EQ(orders.list().back().bytes_left, 0u);
  EXPECT_EQ(orders.list().back().state, OrderState::kDone);
  orders.arrived(3, ProcessId(2), 5, ErrorCode::kOk);  // Too late to matter.
  EXPECT_EQ(orders.list().back().bytes_left, 0u);
}

TEST(MoveOrders, AreDoneWhenAllArrivedBeforeTheSourceHadFinished) {
  MoveOrders orders;
  const std::uint64_t id = orders.add(3, ProcessId(1), ProcessId(2)).value();
  orders.take(ProcessId(1));
  orders.arrived(3, ProcessId(2), 0, ErrorCode::kOk);
  EXPECT_EQ(orders.list().back().state, OrderState::kRunning);
  ASSERT_TRUE(orders.finish(id, ErrorCode::kOk));
  EXPECT_EQ(orders.list().back().state, OrderState::kDone);
}

TEST(MoveOrders, OfAPartitionThatArrivesCanBeFollowedByTheNext) {
  MoveOrders orders;
  const std::uint64_t id = orders.add(3, ProcessId(1), ProcessId(2)).value();
  orders.take(ProcessId(1));
  ASSERT_TRUE(orders.finish(id, ErrorCode::kOk));
  ASSERT_TRUE(orders.add(3, ProcessId(2), ProcessId(1)));
  orders.arrived(3, ProcessId(2), 0, ErrorCode::kOk);
  EXPECT_EQ(orders.list().front().state, OrderState::kDone);
  EXPECT_EQ(orders.list().back().state, OrderState::kQueued);
}

TEST(MoveOrders, FailWithAPartitionThatIsLostAndWithProcessesThatDie) {
  MoveOrders orders;
  const auto moved = [&](std::uint32_t partition) {
    const std::uint64_t id = orders.add(partition, ProcessId(1), ProcessId(2)).value();
    orders.take(ProcessId(1));
    return orders.finish(id, ErrorCode::kOk);
  };
  ASSERT_TRUE(moved(1));
  orders.arrived(1, ProcessId(2), 0, ErrorCode::kSegmentLost);
  EXPECT_EQ(orders.list().back().state, OrderState::kFailed);
  EXPECT_EQ(orders.list().back().error, ErrorCode::kSegmentLost);
  ASSERT_TRUE(moved(2));
  orders.add(3, ProcessId(1), ProcessId(2)).value();
  orders.abandon([](ProcessId process) { return process == ProcessId(2); });
  EXPECT_EQ(orders.list()[1].state, OrderState::kFailed);  // Its target is dead.
  EXPECT_EQ(orders.list()[2].state, OrderState::kQueued);
  orders.take(ProcessId(1));
  orders.abandon([](ProcessId process) { return process == ProcessId(1); });
  EXPECT_EQ(orders.list()[2].state, OrderState::kFailed);
  EXPECT_EQ(orders.list()[2].error, ErrorCode::kConnectionLost);
  EXPECT_TRUE(orders.add(3, ProcessId(4), ProcessId(2)));  // It is free for the next owner.
}

TEST(MoveOrders, SurviveTheirSourceOnceTheTargetHasThePartition) {
  MoveOrders orders;
  orders.add(3, ProcessId(1), ProcessId(2)).value();
  orders.take(ProcessId(1));
  orders.arrived(3, ProcessId(2), 100, ErrorCode::kOk);
  orders.abandon([](ProcessId process) { return process == ProcessId(1); });
  EXPECT_EQ(orders.list().back().state, OrderState::kArriving);
  orders.arrived(3, ProcessId(2), 0, ErrorCode::kOk);
  EXPECT_EQ(orders.list().back().state, OrderState::kDone);
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
