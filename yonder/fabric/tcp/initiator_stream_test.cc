// The initiator's end of a stream, driven through a transport in memory.
#include "yonder/fabric/tcp/internal/initiator_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "yonder/fabric/tcp/internal/test_transport.h"

namespace yonder::fabric::tcp {
namespace {

constexpr std::uint32_t kDepth = 4;

class InitiatorStreamTest : public ::testing::Test {
 protected:
  InitiatorStreamTest() { stream_.attach(std::make_unique<TestTransport>(wire_)); }

  WorkRequest request(Op op, std::span<std::byte> local, std::uint64_t user_data) {
    piece_ = LocalPiece::of(local);
    WorkRequest out{
        .op = op, .user_data = user_data, .deadline = Deadline::at(now_ + std::chrono::seconds(1))};
    if (!is_atomic(op)) out.local = {&piece_, 1};
    return out;
  }
  std::size_t post(const WorkRequest& request) {
    const auto posted = stream_.post({&request, 1}, now_);
    EXPECT_TRUE(posted.sent);
    return posted.count;
  }
  void answer(std::uint32_t id, Op op, std::span<const std::byte> payload = {},
              ErrorCode status = ErrorCode::kOk) {
    wire_.put_struct(ReplyHeader{.op = static_cast<std::uint8_t>(static_cast<unsigned>(op) | kReplyBit),
                                 .status = static_cast<std::uint16_t>(status),
                                 .id = id,
                                 .length = static_cast<std::uint32_t>(payload.size())});
    wire_.put(payload);
  }
  // What a poll would do with a finished request.
  Completion pop() {
    EXPECT_FALSE(finished_.empty());
    if (finished_.empty()) return {};
    --account_.requests;
    return finished_.pop().completion;
  }
  void expire() { expire_on(stream_); }
  void expire_on(InitiatorStream& stream) {
    now_ = now_ + std::chrono::seconds(2);
    EXPECT_TRUE(stream.expire(now_));
  }
  // `sent` is a write that was given up, well formed to its end, then one request.
  static void expect_frames(std::span<const std::byte> sent, std::uint32_t length) {
    FrameParser parser(FrameParser::Kind::kRequests);
    std::vector<std::uint32_t> ids;
    for (bool more = true; more;) {
      switch (parser.next(sent)) {
        case FrameParser::Event::kHeader:
          ids.push_back(parser.request().id);
          break;
        case FrameParser::Event::kPayload: {
          const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(parser.ready(), sent.size()));
          EXPECT_EQ(std::count(sent.begin(), sent.begin() + count, std::byte{0x44}), std::ptrdiff_t{count});
          parser.take(count);
          sent = sent.subspan(count);
          break;
        }
        case FrameParser::Event::kAborted:
          EXPECT_EQ(parser.abort_status(), ErrorCode::kDeadlineExceeded);
          break;
        case FrameParser::Event::kNeedMore:
          more = false;
          break;
        case FrameParser::Event::kMalformed:
          FAIL() << "the frame of a write of " << length << " bytes does not end properly";
      }
    }
    EXPECT_FALSE(parser.mid_frame());
    EXPECT_EQ(ids, (std::vector<std::uint32_t>{0, 1}));
  }

  Wire wire_;
  Account account_{.depth = kDepth};
  FinishedRing finished_{kDepth};
  InitiatorStream stream_{{.endpoint = EndpointId{1},
                           .limits = {.depth = kDepth,
                                      .max_pieces = kMaxPieces,
                                      .max_inline = 64,
                                      .max_message = 1 << 20,
                                      .max_transfer = kMaxTransferBytes},
                           .identity = {},
                           .default_timeout = std::chrono::seconds(5)},
                          account_,
                          finished_};
  Instant now_ = Instant::from_ns(1'000'000'000);
  LocalPiece piece_;
};

TEST_F(InitiatorStreamTest, PlacesARepliesPayloadAndCompletesInOrder) {
  std::byte first[8], second[8];
  post(request(Op::kRead, first, 1));
  post(request(Op::kRead, second, 2));
  EXPECT_EQ(wire_.from_us.size(), 2 * sizeof(RequestHeader));
  answer(0, Op::kRead, std::vector<std::byte>(8, std::byte{1}));
  answer(1, Op::kRead, std::vector<std::byte>(8, std::byte{2}));
  ASSERT_TRUE(stream_.progress());
  EXPECT_EQ(pop().user_data, 1u);
  EXPECT_EQ(pop().user_data, 2u);
  EXPECT_EQ(first[7], std::byte{1});
  EXPECT_EQ(second[7], std::byte{2});
}

TEST_F(InitiatorStreamTest, ALateReplyNeverTouchesTheUsersBuffer) {
  std::vector<std::byte> buffer(100, std::byte{0x33});
  post(request(Op::kRead, buffer, 1));
  expire();
  EXPECT_EQ(pop().status, ErrorCode::kDeadlineExceeded);
  answer(0, Op::kRead, std::vector<std::byte>(100, std::byte{9}));
  ASSERT_TRUE(stream_.progress());
  EXPECT_TRUE(finished_.empty());
  EXPECT_EQ(std::count(buffer.begin(), buffer.end(), std::byte{0x33}), 100);
  EXPECT_FALSE(stream_.has_outstanding());
}

TEST_F(InitiatorStreamTest, AReplyThatExpiresHalfWayStopsTouchingTheBuffer) {
  std::vector<std::byte> buffer(100, std::byte{0x33});
  post(request(Op::kRead, buffer, 1));
  const std::vector<std::byte> payload(100, std::byte{9});
  wire_.put_struct(ReplyHeader{.op = 0x81, .id = 0, .length = 100});
  wire_.put(std::span(payload).first(40));
  ASSERT_TRUE(stream_.progress());
  expire();
  wire_.put(std::span(payload).subspan(40));
  ASSERT_TRUE(stream_.progress());
  EXPECT_EQ(std::count(buffer.begin(), buffer.end(), std::byte{9}), 40);
  EXPECT_EQ(pop().status, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(finished_.empty());
}

// A frame cut anywhere must still end as a frame when its request is given up,
// and the next request must follow it.
TEST_F(InitiatorStreamTest, ARequestGivenUpHalfSentEndsItsFrameFromACopy) {
  const std::uint32_t length = 2 * kChunkBytes + 50;
  for (const std::size_t room :
       {std::size_t{1}, std::size_t{72}, std::size_t{75}, std::size_t{80}, std::size_t{5000},
        std::size_t{72 + 8 + kChunkBytes}, std::size_t{72 + 8 + kChunkBytes + 3},
        std::size_t{72 + 2 * (8 + kChunkBytes) + 20}}) {
    SCOPED_TRACE(room);
    Wire wire;
    InitiatorStream stream(
        {.endpoint = EndpointId{1}, .limits = stream_.limits(), .default_timeout = std::chrono::seconds(5)},
        account_, finished_);
    stream.attach(std::make_unique<TestTransport>(wire));
    std::vector<std::byte> payload(length, std::byte{0x44});
    wire.room = room;
    const WorkRequest write = request(Op::kWrite, payload, 1);
    ASSERT_EQ(stream.post({&write, 1}, now_).count, 1u);
    EXPECT_EQ(wire.from_us.size(), room);
    expire_on(stream);
    EXPECT_EQ(pop().status, ErrorCode::kDeadlineExceeded);
    std::ranges::fill(payload, std::byte{0xbd});  // The buffer is the user's again (E3).
    wire.room = SIZE_MAX;
    const WorkRequest next = request(Op::kFetchAdd, {}, 2);
    ASSERT_EQ(stream.post({&next, 1}, now_).count, 1u);
    expect_frames(wire.from_us, length);
    stream.end_all(ErrorCode::kCancelled);
    (void)pop();
  }
}

TEST_F(InitiatorStreamTest, ARequestThatExpiresBeforeItIsSentIsNeverSent) {
  wire_.room = 10;  // The first one blocks the way.
  post(request(Op::kFetchAdd, {}, 1));
  std::byte buffer[8];
  WorkRequest write = request(Op::kWrite, buffer, 2);
  write.deadline = Deadline::at(now_ + std::chrono::milliseconds(1));
  post(write);
  post(request(Op::kFetchAdd, {}, 3));
  now_ = now_ + std::chrono::milliseconds(2);
  EXPECT_TRUE(stream_.expire(now_));
  EXPECT_EQ(pop().user_data, 2u);
  wire_.room = SIZE_MAX;
  ASSERT_TRUE(stream_.progress());
  ASSERT_EQ(wire_.from_us.size(), 2 * sizeof(RequestHeader));
  answer(0, Op::kFetchAdd);
  answer(2, Op::kFetchAdd);
  ASSERT_TRUE(stream_.progress());
  EXPECT_EQ(pop().user_data, 1u);
  EXPECT_EQ(pop().user_data, 3u);
}

TEST_F(InitiatorStreamTest, ASignalledReplyProvesTheUnsignalledRequestsBeforeIt) {
  std::byte buffer[8];
  WorkRequest quiet = request(Op::kWrite, buffer, 1);
  quiet.flags = RequestFlags::kUnsignalled;
  post(quiet);
  post(quiet);
  EXPECT_EQ(account_.requests, 2u);
  post(request(Op::kWrite, buffer, 3));
  answer(2, Op::kWrite);
  ASSERT_TRUE(stream_.progress());
  EXPECT_EQ(pop().user_data, 3u);
  EXPECT_TRUE(finished_.empty());
  EXPECT_EQ(account_.requests, 0u);
}

TEST_F(InitiatorStreamTest, AnAbortedReadFailsWithItsReason) {
  std::vector<std::byte> buffer(kChunkBytes + 1);
  post(request(Op::kRead, buffer, 1));
  wire_.put_struct(ReplyHeader{.op = 0x81, .id = 0, .length = kChunkBytes + 1});
  wire_.put_struct(ChunkHeader{.length = 10});
  wire_.put(std::vector<std::byte>(10));
  wire_.put_struct(ChunkHeader{.status = static_cast<std::uint16_t>(ErrorCode::kRegionRevoked)});
  ASSERT_TRUE(stream_.progress());
  EXPECT_EQ(pop().status, ErrorCode::kRegionRevoked);
}

TEST_F(InitiatorStreamTest, EndsAtRepliesThatCannotBeRight) {
  const auto fails_with = [this](std::uint32_t id, Op op, std::size_t payload) {
    Wire wire;
    Account account{.depth = kDepth};
    FinishedRing finished{kDepth};
    InitiatorStream stream(
        {.endpoint = EndpointId{1}, .limits = stream_.limits(), .default_timeout = std::chrono::seconds(5)},
        account, finished);
    stream.attach(std::make_unique<TestTransport>(wire));
    std::byte buffer[8];
    const WorkRequest reads[] = {request(Op::kRead, buffer, 1), request(Op::kRead, buffer, 2)};
    EXPECT_EQ(stream.post(reads, now_).count, 2u);
    wire.put_struct(ReplyHeader{.op = static_cast<std::uint8_t>(static_cast<unsigned>(op) | kReplyBit),
                                .id = id,
                                .length = static_cast<std::uint32_t>(payload)});
    wire.put(std::vector<std::byte>(payload));
    const auto result = stream.progress();
    return result ? ErrorCode::kOk : result.error().code();
  };
  EXPECT_EQ(fails_with(0, Op::kRead, 8), ErrorCode::kOk);
  EXPECT_EQ(fails_with(1, Op::kRead, 8), ErrorCode::kMalformedFrame) << "out of order";
  EXPECT_EQ(fails_with(2, Op::kRead, 8), ErrorCode::kMalformedFrame) << "to no request";
  EXPECT_EQ(fails_with(0, Op::kWrite, 0), ErrorCode::kMalformedFrame) << "to another operation";
  EXPECT_EQ(fails_with(0, Op::kRead, 9), ErrorCode::kMalformedFrame) << "longer than asked for";
  EXPECT_EQ(fails_with(0, Op::kRead, 7), ErrorCode::kMalformedFrame) << "shorter than asked for";
}

TEST_F(InitiatorStreamTest, APeerThatAnswersNothingIsGivenUpWhenTheRingIsFull) {
  for (std::uint32_t i = 0; i < 2 * kDepth; ++i) {
    ASSERT_EQ(post(request(Op::kFetchAdd, {}, i)), 1u);
    expire();
    EXPECT_EQ(pop().status, ErrorCode::kDeadlineExceeded);
  }
  const WorkRequest more = request(Op::kFetchAdd, {}, 99);
  const auto posted = stream_.post({&more, 1}, now_);
  EXPECT_EQ(posted.count, 0u);
  ASSERT_FALSE(posted.sent);
  EXPECT_EQ(posted.sent.error(), ErrorCode::kPeerTooSlow);
}

TEST_F(InitiatorStreamTest, ReceivesALongReadInPlaceFromAnyPieces) {
  const std::uint32_t length = 3 * kChunkBytes;
  std::vector<std::byte> expected(length);
  for (std::size_t i = 0; i < length; ++i) expected[i] = static_cast<std::byte>(i * 13 >> 4);
  std::vector<std::byte> buffer(length);
  const LocalPiece pieces[] = {LocalPiece::of(std::span(buffer).first(5)),
                               LocalPiece::of(std::span(buffer).subspan(5, 70000)),
                               LocalPiece::of(std::span(buffer).subspan(70005))};
  WorkRequest read = request(Op::kRead, {}, 1);
  read.local = pieces;
  post(read);
  Wire whole;
  whole.put_struct(ReplyHeader{.op = 0x81, .id = 0, .length = length});
  for (std::uint32_t at = 0; at < length; at += kChunkBytes) {
    whole.put_struct(ChunkHeader{.length = kChunkBytes});
    whole.put(std::span(expected).subspan(at, kChunkBytes));
  }
  for (std::size_t at = 0; at < whole.to_us.size(); at += 9973) {
    wire_.put(std::span(whole.to_us).subspan(at, std::min<std::size_t>(9973, whole.to_us.size() - at)));
    ASSERT_TRUE(stream_.progress());
  }
  EXPECT_TRUE(pop().ok());
  EXPECT_EQ(buffer, expected);
}

}  // namespace
}  // namespace yonder::fabric::tcp
