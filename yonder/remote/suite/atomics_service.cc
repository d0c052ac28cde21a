// Locks and sequencers by request.
#include "yonder/remote/atomics_service.h"

#include "yonder/remote/suite/service_bed.h"

namespace yonder::remote::suite {
namespace {

using namespace std::chrono_literals;

TEST_P(ServiceSuite, NumbersByRequest) {
  RpcSequencer sequencer(*client_, *scheduler_, 1);
  EXPECT_EQ(sequencer.next().value(), 0U);
  EXPECT_EQ(sequencer.reserve(5).value(), 1U);
  EXPECT_EQ(sequencer.next().value(), 6U);
  EXPECT_EQ(sequencer.reserve(0).error(), ErrorCode::kInvalidArgument);
  RpcSequencer beyond(*client_, *scheduler_, 4);
  EXPECT_EQ(beyond.next().error(), ErrorCode::kNotFound);
}

TEST_P(ServiceSuite, LocksByRequest) {
  RpcLock one(*client_, *scheduler_, 2, {.lease = 60s});
  RpcLock other(*client_, *scheduler_, 2, {.lease = 60s});
  const auto token = one.lock();
  ASSERT_TRUE(token);
  EXPECT_EQ(other.lock(Deadline::after(queue_->clock(), 2ms)).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(other.unlock(*token + 1).error(), ErrorCode::kLeaseLost);
  EXPECT_TRUE(one.unlock(*token));
  EXPECT_EQ(other.lock().value(), *token + 1);
  RpcLock beyond(*client_, *scheduler_, 4);
  EXPECT_EQ(beyond.lock().error(), ErrorCode::kNotFound);
}

TEST_P(ServiceSuite, ALeaseThatRanOutIsTakenOver) {
  RpcLock dead(*client_, *scheduler_, 3, {.lease = 1ms});
  RpcLock next(*client_, *scheduler_, 3, {.lease = 60s});
  const auto old_token = dead.lock();
  ASSERT_TRUE(old_token);
  ASSERT_TRUE(next.lock());
  EXPECT_EQ(dead.unlock(*old_token).error(), ErrorCode::kLeaseLost);
}

}  // namespace
}  // namespace yonder::remote::suite
