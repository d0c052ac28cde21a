#include "yonder/fabric/types.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace yonder::fabric {
namespace {

constexpr Limits kLimits{.depth = 8,
                         .receive_depth = 8,
                         .max_pieces = 4,
                         .max_inline = 64,
                         .max_message = 1024,
                         .max_transfer = 1 << 20};

WorkRequest of(Op op, std::span<const LocalPiece> local, RequestFlags flags = RequestFlags::kNone) {
  return {.op = op, .flags = flags, .local = local};
}

TEST(Rights, AreAllowedOnlyTogether) {
  EXPECT_TRUE(allows(Rights::kRead | Rights::kWrite, Rights::kWrite));
  EXPECT_FALSE(allows(Rights::kRead, Rights::kRead | Rights::kAtomic));
  EXPECT_TRUE(allows(Rights::kNone, needed_right(Op::kSend)));
}

TEST(RegionToken, SurvivesItsEncoding) {
  const RegionToken token{
      .key = {0x1122334455667788}, .length = 1 << 30, .rights = Rights::kAll, .atomics = AtomicsBy::kNic};
  std::array<std::byte, RegionToken::kEncodedBytes> bytes;
  token.encode(bytes);
  EXPECT_EQ(RegionToken::decode(bytes).value(), token);
}

TEST(RegionToken, DistrustsItsBytes) {
  std::array<std::byte, RegionToken::kEncodedBytes> bytes;
  RegionToken{.key = {1}, .length = 8, .rights = Rights::kRead}.encode(bytes);
  EXPECT_EQ(RegionToken::decode(std::span(bytes).first(23)).error(), ErrorCode::kCorrupt);
  for (const std::size_t bad : {16, 17, 18, 23}) {
    auto copy = bytes;
    copy[bad] = std::byte{0xff};
    EXPECT_FALSE(RegionToken::decode(copy)) << bad;
  }
}

TEST(CheckRequest, RefusesWhatNoTargetNeedsToSee) {
  std::array<std::byte, 100> buffer;
  const LocalPiece small = LocalPiece::of(std::span(buffer).first(64));
  const LocalPiece large = LocalPiece::of(std::span(buffer));
  const LocalPiece huge{buffer.data(), std::numeric_limits<std::uint32_t>::max()};
  const std::array<LocalPiece, 5> many = {small, small, small, small, small};
  EXPECT_EQ(check_request(of(Op::kRead, {&small, 1}), kLimits), ErrorCode::kOk);
  EXPECT_EQ(check_request(of(Op::kRead, {}), kLimits), ErrorCode::kLengthInvalid);
  EXPECT_EQ(check_request(of(Op::kWrite, {&huge, 1}), kLimits), ErrorCode::kLengthInvalid);
  EXPECT_EQ(check_request(of(Op::kWrite, many), kLimits), ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_request(of(Op::kSend, {}), kLimits), ErrorCode::kOk);
  EXPECT_EQ(check_request(of(Op::kSend, {&huge, 1}), kLimits), ErrorCode::kMessageTooLong);
  EXPECT_EQ(check_request(of(Op::kWrite, {&small, 1}, RequestFlags::kInline), kLimits), ErrorCode::kOk);
  EXPECT_EQ(check_request(of(Op::kWrite, {&large, 1}, RequestFlags::kInline), kLimits),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_request(of(Op::kRead, {&small, 1}, RequestFlags::kInline), kLimits),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_request(of(Op::kFetchAdd, {&small, 1}), kLimits), ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_request(of(Op::kReceive, {}), kLimits), ErrorCode::kInvalidArgument);
  WorkRequest atomic = of(Op::kFetchAdd, {});
  EXPECT_EQ(check_request(atomic, kLimits), ErrorCode::kOk);
  atomic.remote.offset = 12;
  EXPECT_EQ(check_request(atomic, kLimits), ErrorCode::kMisaligned);
}

TEST(CheckAccess, NeverWraps) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(check_access(Op::kRead, 0, 100, 100, Rights::kRead), ErrorCode::kOk);
  EXPECT_EQ(check_access(Op::kRead, 1, 100, 100, Rights::kRead), ErrorCode::kOutOfBounds);
  EXPECT_EQ(check_access(Op::kRead, kMax, 2, 100, Rights::kRead), ErrorCode::kOutOfBounds);
  EXPECT_EQ(check_access(Op::kRead, 2, kMax, 100, Rights::kRead), ErrorCode::kOutOfBounds);
  EXPECT_EQ(check_access(Op::kRead, 0, 0, 100, Rights::kRead), ErrorCode::kLengthInvalid);
  EXPECT_EQ(check_access(Op::kWrite, 0, 8, 100, Rights::kRead), ErrorCode::kAccessDenied);
  EXPECT_EQ(check_access(Op::kFetchAdd, 4, 8, 100, Rights::kAll), ErrorCode::kMisaligned);
}

}  // namespace
}  // namespace yonder::fabric
