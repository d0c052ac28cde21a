// The target's end of a stream, driven through a transport in memory.
#include "yonder/fabric/tcp/internal/target_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "yonder/fabric/tcp/internal/test_transport.h"

namespace yonder::fabric::tcp {
namespace {

constexpr Duration kStall = std::chrono::seconds(10);
constexpr std::uint32_t kLong = 5 * kChunkBytes + 123;

class TargetStreamTest : public ::testing::Test {
 protected:
  TargetStreamTest() : memory_(1 << 20) {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i * 31 >> 3);
    region_ = regions_.add({.memory = memory_, .rights = Rights::kAll}).value();
    stream_ = make_stream(nullptr);
  }

  std::unique_ptr<TargetStream> make_stream(std::shared_ptr<Inbox> inbox) {
    return std::make_unique<TargetStream>(
        std::make_unique<TestTransport>(wire_),
        TargetContext{.regions = regions_, .epoch = epoch_, .stall_timeout = kStall}, TenantId{0},
        std::move(inbox));
  }
  RequestHeader header(Op op, std::uint32_t length, std::uint64_t offset = 0) {
    return {.op = static_cast<std::uint8_t>(op),
            .id = next_id_++,
            .length = length,
            .key = region_.token().key.value,
            .offset = offset,
            .budget_ns = 1'000'000'000};
  }
  Result<bool> progress() { return stream_->progress(now_); }
  ReplyHeader reply() { return wire_.pop_struct<ReplyHeader>(); }

  // Lets the stream send all of a long read; returns the bytes, and the status of
  // an abort if there was one.
  std::vector<std::byte> take_chunks(std::uint32_t length, ErrorCode& status) {
    std::vector<std::byte> got;
    while (got.size() < length) {
      wire_.room = SIZE_MAX;
      EXPECT_TRUE(progress());
      const auto chunk = wire_.pop_struct<ChunkHeader>();
      EXPECT_TRUE(chunk.is_valid(length - static_cast<std::uint32_t>(got.size())));
      status = static_cast<ErrorCode>(chunk.status);
      if (status != ErrorCode::kOk) return got;
      got.insert(got.end(), wire_.from_us.begin(), wire_.from_us.begin() + chunk.length);
      wire_.from_us.erase(wire_.from_us.begin(), wire_.from_us.begin() + chunk.length);
    }
    return got;
  }

  std::vector<std::byte> memory_;
  RegionTable regions_;
  std::atomic<std::uint64_t> epoch_{0};
  Region region_;
  Wire wire_;
  std::uint32_t next_id_ = 1;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::unique_ptr<TargetStream> stream_;
};

TEST_F(TargetStreamTest, AnswersManyRequestsWithOneSend) {
  for (int i = 0; i < 100; ++i) wire_.put_struct(header(Op::kRead, 64, static_cast<std::uint64_t>(i) * 64));
  EXPECT_TRUE(progress().value());
  ASSERT_EQ(wire_.from_us.size(), 100 * (sizeof(ReplyHeader) + 64));
  for (std::uint32_t i = 0; i < 100; ++i) {
    const ReplyHeader got = reply();
    EXPECT_EQ(got.id, i + 1);
    EXPECT_EQ(got.status, 0);
    EXPECT_EQ(std::memcmp(wire_.from_us.data(), memory_.data() + i * 64, 64), 0);
    wire_.from_us.erase(wire_.from_us.begin(), wire_.from_us.begin() + 64);
  }
}

TEST_F(TargetStreamTest, KeepsNoMoreOutputThanItsBoundForAPeerThatDoesNotRead) {
  wire_.room = 0;
  for (int i = 0; i < 1000; ++i) wire_.put_struct(header(Op::kRead, 4096));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(progress());
  EXPECT_FALSE(stream_->wants_read());
  // It has not even taken all requests, let alone answered them.
  wire_.room = SIZE_MAX;
  std::size_t answers = 0;
  while (progress().value()) {
  }
  answers = wire_.from_us.size() / (sizeof(ReplyHeader) + 4096);
  EXPECT_EQ(answers, 1000u);
  EXPECT_TRUE(stream_->wants_read());
}

TEST_F(TargetStreamTest, DropsAPeerThatDoesNotTakeItsAnswers) {
  wire_.room = 0;
  wire_.put_struct(header(Op::kRead, 64));
  ASSERT_TRUE(progress());
  EXPECT_EQ(stream_->next_timer(), now_ + kStall);
  now_ = now_ + kStall + std::chrono::milliseconds(1);
  const auto over = progress();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error(), ErrorCode::kPeerTooSlow);
}

TEST_F(TargetStreamTest, DropsAPeerThatStopsInTheMiddleOfAFrameButNotAnIdleOne) {
  ASSERT_TRUE(progress());
  now_ = now_ + 10 * kStall;
  ASSERT_TRUE(progress()) << "an idle peer may stay for ever";
  const RequestHeader request = header(Op::kRead, 64);
  wire_.put(std::as_bytes(std::span(&request, 1)).first(10));
  ASSERT_TRUE(progress());
  now_ = now_ + kStall + std::chrono::milliseconds(1);
  const auto over = progress();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error(), ErrorCode::kPeerTooSlow);
}

TEST_F(TargetStreamTest, EndsAtGarbage) {
  wire_.put_struct(header(Op::kRead, 64));
  wire_.put(std::vector<std::byte>(72, std::byte{'x'}));
  const auto over = progress();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error(), ErrorCode::kMalformedFrame);
}

TEST_F(TargetStreamTest, AsksForItsTurnWhileALongAnswerCouldGoOn) {
  wire_.put_struct(header(Op::kRead, kLong));
  ASSERT_TRUE(progress());
  ASSERT_FALSE(stream_->wants_write()) << "the socket took everything: no event will come";
  EXPECT_TRUE(stream_->wants_turn());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(progress());
  EXPECT_FALSE(stream_->wants_turn());
}

TEST_F(TargetStreamTest, AnswersALongReadInChunks) {
  wire_.put_struct(header(Op::kRead, kLong, 77));
  wire_.room = 0;
  ASSERT_TRUE(progress());
  EXPECT_FALSE(stream_->wants_read()) << "one long answer at a time";
  wire_.room = SIZE_MAX;
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().length, kLong);
  ErrorCode status = ErrorCode::kOk;
  const auto got = take_chunks(kLong, status);
  ASSERT_EQ(got.size(), kLong);
  EXPECT_EQ(std::memcmp(got.data(), memory_.data() + 77, kLong), 0);
}

TEST_F(TargetStreamTest, RevokingInTheMiddleOfAReadAbortsItAndNothingElse) {
  Region other = regions_.add({.memory = memory_, .rights = Rights::kRead}).value();
  wire_.put_struct(header(Op::kRead, kLong));
  RequestHeader after = header(Op::kRead, 8);
  after.key = other.token().key.value;
  wire_.put_struct(after);
  wire_.room = 0;
  ASSERT_TRUE(progress());
  region_.revoke();
  const std::vector<std::byte> before = memory_;
  std::memset(memory_.data(), 0xdd, memory_.size());  // From here on it must not be read.
  wire_.room = SIZE_MAX;
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().length, kLong);
  ErrorCode status = ErrorCode::kOk;
  const auto got = take_chunks(kLong, status);
  EXPECT_EQ(status, ErrorCode::kRegionRevoked);
  ASSERT_LT(got.size(), kLong);
  EXPECT_EQ(std::memcmp(got.data(), before.data(), got.size()), 0);
  std::memcpy(memory_.data(), before.data(), memory_.size());
  ASSERT_TRUE(progress());
  const ReplyHeader next = reply();
  EXPECT_EQ(next.id, after.id);
  EXPECT_EQ(next.status, 0);
}

TEST_F(TargetStreamTest, RevokingInTheMiddleOfAWriteDropsTheRest) {
  wire_.put_struct(header(Op::kWrite, 1000));
  wire_.put(std::vector<std::byte>(600, std::byte{0xaa}));
  ASSERT_TRUE(progress());
  EXPECT_EQ(memory_[592], std::byte{0xaa});
  region_.revoke();
  std::memset(memory_.data(), 0x55, memory_.size());
  wire_.put(std::vector<std::byte>(400, std::byte{0xbb}));
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().code(), ErrorCode::kRegionRevoked);
  EXPECT_EQ(std::count(memory_.begin(), memory_.end(), std::byte{0x55}), std::ssize(memory_));
}

TEST_F(TargetStreamTest, ARequestSeesOldOrNewMemoryOfARebindNeverBoth) {
  std::vector<std::byte> fresh(memory_.size(), std::byte{0x77});
  wire_.put_struct(header(Op::kRead, kLong));
  wire_.room = 0;
  ASSERT_TRUE(progress());
  // The rebind waits in vain for us, because we are not served meanwhile.
  ASSERT_TRUE(region_.rebind(fresh));
  wire_.put_struct(header(Op::kRead, 8));
  wire_.room = SIZE_MAX;
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().length, kLong);
  ErrorCode status = ErrorCode::kOk;
  const auto got = take_chunks(kLong, status);
  EXPECT_EQ(status, ErrorCode::kRegionRevoked);
  EXPECT_EQ(std::memcmp(got.data(), memory_.data(), got.size()), 0) << "the part that came is the old memory";
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().status, 0);
  EXPECT_EQ(wire_.from_us[0], std::byte{0x77});
}

TEST_F(TargetStreamTest, AnInitiatorMayGiveUpInTheMiddle) {
  wire_.put_struct(header(Op::kWrite, kLong));
  wire_.put_struct(ChunkHeader{.length = 100});
  wire_.put(std::vector<std::byte>(100));
  wire_.put_struct(ChunkHeader{.status = static_cast<std::uint16_t>(ErrorCode::kDeadlineExceeded)});
  wire_.put_struct(header(Op::kFetchAdd, 0));
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(reply().code(), ErrorCode::kOk);
}

TEST_F(TargetStreamTest, AnswersUnsignalledRequestsOnlyIfTheyFail) {
  RequestHeader good = header(Op::kWrite, 8);
  good.flags = kWireUnsignalled;
  RequestHeader bad = header(Op::kWrite, 8, memory_.size());
  bad.flags = kWireUnsignalled;
  for (const RequestHeader& request : {good, bad}) {
    wire_.put_struct(request);
    wire_.put(std::vector<std::byte>(8));
  }
  ASSERT_TRUE(progress());
  const ReplyHeader got = reply();
  EXPECT_EQ(got.id, bad.id);
  EXPECT_EQ(got.code(), ErrorCode::kOutOfBounds);
  EXPECT_TRUE(wire_.from_us.empty());
}

TEST_F(TargetStreamTest, RefusesAnOlderEpochPerRequest) {
  epoch_ = 5;
  RequestHeader old = header(Op::kWrite, 8);
  RequestHeader current = header(Op::kRead, 8);
  current.epoch = 5;
  wire_.put_struct(old);
  wire_.put(std::vector<std::byte>(8));
  wire_.put_struct(current);
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().code(), ErrorCode::kStaleEpoch);
  EXPECT_EQ(reply().code(), ErrorCode::kOk);
}

TEST_F(TargetStreamTest, ARequestCannotClaimAnotherTenant) {
  Region theirs = regions_.add({.memory = memory_, .tenant = TenantId{7}}).value();
  RequestHeader forged = header(Op::kRead, 8);
  forged.key = theirs.token().key.value;
  forged.tenant = 7;
  wire_.put_struct(forged);
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().code(), ErrorCode::kTenantDenied);
}

// ---------------------------------------------------------------- messages

class TargetStreamMessages : public TargetStreamTest {
 protected:
  TargetStreamMessages()
      : inbox_(std::make_shared<Inbox>(Inbox::Options{.endpoint = EndpointId{3},
                                                      .account = &account_,
                                                      .receive_depth = 4,
                                                      .max_message = 1000,
                                                      .shared = nullptr,
                                                      .server = nullptr},
                                       arrivals_)) {
    stream_ = make_stream(inbox_);
  }
  void post(std::span<std::byte> buffer, std::uint64_t user_data) {
    inbox_->post({.user_data = user_data, .buffer = LocalPiece::of(buffer)});
  }

  Account account_;
  Arrivals arrivals_{16};
  std::shared_ptr<Inbox> inbox_;
};

TEST_F(TargetStreamMessages, AMessageWaitsForItsReceiveAndEverythingBehindItToo) {
  wire_.put_struct(header(Op::kSend, 5));
  wire_.put(std::vector<std::byte>(5, std::byte{'m'}));
  wire_.put_struct(header(Op::kFetchAdd, 0));
  ASSERT_TRUE(progress());
  EXPECT_TRUE(stream_->awaits_receive());
  EXPECT_TRUE(wire_.from_us.empty()) << "requests take effect in order (E1)";
  std::byte buffer[8];
  post(buffer, 42);
  ASSERT_TRUE(progress());
  const Completion arrived = arrivals_.pop().completion;
  EXPECT_EQ(arrived.user_data, 42u);
  EXPECT_EQ(arrived.length, 5u);
  EXPECT_EQ(buffer[4], std::byte{'m'});
  EXPECT_EQ(reply().operation(), Op::kSend);
  EXPECT_EQ(reply().operation(), Op::kFetchAdd);
}

TEST_F(TargetStreamMessages, NobodyReceivesBeforeSevenEighthsOfTheBudget) {
  wire_.put_struct(header(Op::kSend, 5));
  wire_.put(std::vector<std::byte>(5));
  ASSERT_TRUE(progress());
  now_ = now_ + std::chrono::milliseconds(870);
  ASSERT_TRUE(progress());
  EXPECT_TRUE(wire_.from_us.empty());
  now_ = now_ + std::chrono::milliseconds(10);
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().code(), ErrorCode::kReceiverNotReady);
}

TEST_F(TargetStreamMessages, AMessageLongerThanTheBufferLeavesTheBuffer) {
  std::byte small[4];
  post(small, 1);
  wire_.put_struct(header(Op::kSend, 5));
  wire_.put(std::vector<std::byte>(5));
  wire_.put_struct(header(Op::kSend, 4));
  wire_.put(std::vector<std::byte>(4));
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().code(), ErrorCode::kMessageTooLong);
  EXPECT_EQ(reply().code(), ErrorCode::kOk);
  EXPECT_EQ(arrivals_.pop().completion.length, 4u);
}

TEST_F(TargetStreamMessages, AStreamThatEndsInAMessageGivesTheBufferBack) {
  std::byte buffer[1000];
  post(buffer, 9);
  wire_.put_struct(header(Op::kSend, 500));
  wire_.put(std::vector<std::byte>(100));
  ASSERT_TRUE(progress());
  stream_.reset();
  inbox_->end_all(ErrorCode::kConnectionLost);
  ASSERT_TRUE(arrivals_.has_any());
  const Completion ended = arrivals_.pop().completion;
  EXPECT_EQ(ended.user_data, 9u);
  EXPECT_EQ(ended.status, ErrorCode::kConnectionLost);
}

TEST_F(TargetStreamTest, APassiveTargetRefusesMessagesAndGoesOn) {
  wire_.put_struct(header(Op::kSend, 5));
  wire_.put(std::vector<std::byte>(5));
  wire_.put_struct(header(Op::kWriteImm, 8));
  wire_.put(std::vector<std::byte>(8, std::byte{0xff}));
  wire_.put_struct(header(Op::kRead, 8));
  const std::byte before = memory_[0];
  ASSERT_TRUE(progress());
  EXPECT_EQ(reply().code(), ErrorCode::kReceiverNotReady);
  EXPECT_EQ(reply().code(), ErrorCode::kReceiverNotReady);
  EXPECT_EQ(reply().code(), ErrorCode::kOk);
  EXPECT_EQ(memory_[0], before);
}

}  // namespace
}  // namespace yonder::fabric::tcp
