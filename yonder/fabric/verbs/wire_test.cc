#include <gtest/gtest.h>

#include <cstring>

#include "yonder/base/prng.h"
#include "yonder/fabric/verbs/internal/wire.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::verbs {
namespace {

TEST(Wire, AnOpenRequestComesBackWhole) {
  OpenRequest request{.replaces = 77};
  request.hello.identity = {.tenant = TenantId{5}, .epoch = Epoch{9}};
  const auto got = decode_request(encode(request));
  ASSERT_TRUE(got) << got.error();
  const auto* open = std::get_if<OpenRequest>(&*got);
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(open->replaces, 77u);
  EXPECT_EQ(open->hello.identity.tenant, TenantId{5});
  EXPECT_EQ(open->hello.identity.epoch, Epoch{9});
}

TEST(Wire, AResumeRequestComesBackWhole) {
  const ResumeRequest request{.seat = 1,
                              .refused = {.op = Op::kFetchAdd, .remote = {RegionKey{2}, 3}, .length = 8},
                              .epoch = Epoch{4},
                              .received = 5};
  const auto got = decode_request(encode(request));
  ASSERT_TRUE(got) << got.error();
  const auto* resume = std::get_if<ResumeRequest>(&*got);
  ASSERT_NE(resume, nullptr);
  EXPECT_EQ(resume->seat, 1u);
  EXPECT_EQ(resume->refused.op, Op::kFetchAdd);
  EXPECT_EQ(resume->refused.remote, (RemoteAddress{RegionKey{2}, 3}));
  EXPECT_EQ(resume->refused.length, 8u);
  EXPECT_EQ(resume->epoch, Epoch{4});
  EXPECT_EQ(resume->received, 5u);
}

TEST(Wire, AReplyCarriesSeatReasonAndGreeting) {
  const Reply reply{.seat = 6,
                    .current_key = RegionKey{8},
                    .reason = ErrorCode::kOutOfBounds,
                    .greeting = {std::byte{1}, std::byte{2}}};
  auto bytes = encode(reply);
  bytes.resize(196);  // The connection manager pads with zeroes.
  const auto got = decode_reply(bytes);
  ASSERT_TRUE(got) << got.error();
  EXPECT_EQ(got->seat, 6u);
  EXPECT_EQ(got->current_key, RegionKey{8});
  EXPECT_EQ(got->reason, ErrorCode::kOutOfBounds);
  EXPECT_EQ(got->greeting, reply.greeting);
}

TEST(Wire, RefusesShortAndForeignBytes) {
  const std::vector<std::byte> zeroes(196);
  EXPECT_FALSE(decode_request(zeroes));
  EXPECT_FALSE(decode_reply(zeroes));
  const auto request = encode(OpenRequest{});
  EXPECT_FALSE(decode_request(std::span(request).first(55)));
  const auto reply = encode(Reply{});
  EXPECT_FALSE(decode_reply(std::span(reply).first(59)));
}

TEST(Wire, RefusesAGreetingLongerThanItsMessage) {
  auto bytes = encode(Reply{});
  const std::uint16_t length = 1;
  std::memcpy(bytes.data() + 58, &length, 2);
  EXPECT_FALSE(decode_reply(bytes));
}

TEST(Wire, RandomBytesAreNeverAReplyThatOverruns) {
  Prng random(testing::test_seed());
  auto bytes = encode(Reply{});
  bytes.resize(100);
  for (int i = 0; i < 1000; ++i) {
    for (std::size_t at = 40; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(random());
    const auto got = decode_reply(bytes);
    if (got) {
      EXPECT_LE(got->greeting.size(), bytes.size() - kReplyHeadBytes);
    }
  }
}

TEST(Wire, ARejectionSaysWhyOrThatNobodyListens) {
  EXPECT_EQ(decode_rejection(encode_rejection(ErrorCode::kStaleEpoch)), ErrorCode::kStaleEpoch);
  EXPECT_EQ(decode_rejection(encode_rejection(ErrorCode::kOk)), ErrorCode::kConnectionRefused);
  EXPECT_EQ(decode_rejection({}), ErrorCode::kConnectionRefused);
}

}  // namespace
}  // namespace yonder::fabric::verbs
