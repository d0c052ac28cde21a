#include "yonder/node/internal/stages.h"

#include <gtest/gtest.h>

#include <vector>

namespace yonder::node::internal {
namespace {

class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void pass(Duration duration) { now_ = now_ + duration; }

 private:
  Instant now_ = Instant::from_ns(1);
};

constexpr fabric::EndpointId kOwner{1};
constexpr fabric::EndpointId kOther{2};

std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST(Stages, GatherPartsInOrderAndGiveThemBackWhole) {
  const ManualClock clock;
  Stages stages(clock, {});
  const std::uint64_t ticket = stages.open(kOwner, 10).value();
  EXPECT_EQ(stages.take(kOwner, ticket).error(), ErrorCode::kInvalidArgument) << "not full";
  EXPECT_EQ(stages.put(kOwner, ticket, 4, bytes_of(4, 1)).error(), ErrorCode::kOutOfBounds) << "a hole";
  EXPECT_TRUE(stages.put(kOwner, ticket, 0, bytes_of(6, 1)));
  EXPECT_EQ(stages.put(kOwner, ticket, 0, bytes_of(6, 2)).error(), ErrorCode::kOutOfBounds) << "again";
  EXPECT_EQ(stages.put(kOwner, ticket, 6, bytes_of(5, 2)).error(), ErrorCode::kOutOfBounds) << "beyond";
  std::vector<std::byte> out(4);
  EXPECT_EQ(stages.get(kOwner, ticket, 0, out).error(), ErrorCode::kInvalidArgument) << "not full";
  EXPECT_TRUE(stages.put(kOwner, ticket, 6, bytes_of(4, 2)));
  EXPECT_TRUE(stages.get(kOwner, ticket, 4, out));
  EXPECT_EQ(out, (std::vector<std::byte>{std::byte{1}, std::byte{1}, std::byte{2}, std::byte{2}}));
  EXPECT_EQ(stages.get(kOwner, ticket, 7, out).error(), ErrorCode::kOutOfBounds);
  EXPECT_EQ(stages.bytes(), 10u);
  const auto taken = stages.take(kOwner, ticket);
  ASSERT_TRUE(taken) << taken.error();
  EXPECT_EQ(taken->bytes()[9], std::byte{2});
  EXPECT_EQ(stages.bytes(), 0u);
  EXPECT_EQ(stages.take(kOwner, ticket).error(), ErrorCode::kNotFound);
}

TEST(Stages, BelongToTheirConnection) {
  const ManualClock clock;
  Stages stages(clock, {});
  const std::uint64_t ticket = stages.open(kOwner, 4).value();
  EXPECT_EQ(stages.put(kOther, ticket, 0, bytes_of(4, 1)).error(), ErrorCode::kNotFound);
  EXPECT_EQ(stages.drop(kOther, ticket).error(), ErrorCode::kNotFound);
  EXPECT_EQ(stages.take(kOther, ticket).error(), ErrorCode::kNotFound);
  EXPECT_TRUE(stages.drop(kOwner, ticket));
  EXPECT_EQ(stages.bytes(), 0u);
}

TEST(Stages, AreBoundedInNumberAndBytes) {
  const ManualClock clock;
  Stages stages(clock, {.max_count = 2, .max_bytes = 100});
  EXPECT_EQ(stages.open(kOwner, 0).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(stages.open(kOwner, 101).error(), ErrorCode::kOverloaded);
  const std::uint64_t first = stages.open(kOwner, 60).value();
  EXPECT_EQ(stages.open(kOwner, 41).error(), ErrorCode::kOverloaded);
  ASSERT_TRUE(stages.open(kOwner, 10));
  EXPECT_EQ(stages.open(kOwner, 10).error(), ErrorCode::kOverloaded);
  EXPECT_TRUE(stages.drop(kOwner, first));
  EXPECT_TRUE(stages.open(kOwner, 90));
  EXPECT_EQ(stages.bytes(), 100u);
}

TEST(Stages, ThatNobodyUsesMakeRoomForOthers) {
  ManualClock clock;
  Stages stages(clock, {.max_count = 2, .max_bytes = 100, .timeout = std::chrono::seconds(1)});
  const std::uint64_t idle = stages.open(kOwner, 50).value();
  clock.pass(std::chrono::milliseconds(600));
  const std::uint64_t busy = stages.open(kOther, 50).value();
  clock.pass(std::chrono::milliseconds(600));
  ASSERT_TRUE(stages.put(kOther, busy, 0, bytes_of(1, 1)));
  EXPECT_TRUE(stages.open(kOther, 50)) << "the idle one expired";
  EXPECT_EQ(stages.put(kOwner, idle, 0, bytes_of(1, 1)).error(), ErrorCode::kNotFound);
  EXPECT_TRUE(stages.put(kOther, busy, 1, bytes_of(1, 1)));
  clock.pass(std::chrono::seconds(2));
  stages.expire();
  EXPECT_EQ(stages.bytes(), 0u);
}

TEST(Stages, KeepWhatWasReadForItsReader) {
  const ManualClock clock;
  Stages stages(clock, {.max_bytes = 8});
  StagedBytes read{.memory = std::make_unique<std::byte[]>(8), .size = 8};
  read.bytes()[7] = std::byte{9};
  const std::uint64_t ticket = stages.keep(kOwner, std::move(read)).value();
  std::vector<std::byte> out(8);
  EXPECT_TRUE(stages.get(kOwner, ticket, 0, out));
  EXPECT_EQ(out[7], std::byte{9});
  EXPECT_EQ(stages.keep(kOwner, {.memory = std::make_unique<std::byte[]>(1), .size = 1}).error(),
            ErrorCode::kOverloaded);
}

}  // namespace
}  // namespace yonder::node::internal
