// What a target refuses, and that it refuses just that (guarantee E4).
#include <cstring>

#include "yonder/fabric/conformance/bed.h"

namespace yonder::fabric::conformance {
namespace {

TEST_P(Conformance, RefusesAnUnknownKey) {
  const RemoteAddress forged{RegionKey{token_.key.value ^ 0x5a5a5a5a5a5a5a5aULL}, 0};
  expect_only_it_fails(request(Op::kRead, forged), ErrorCode::kUnknownKey);
  expect_only_it_fails(request(Op::kWrite, forged), ErrorCode::kUnknownKey);
  expect_only_it_fails(request(Op::kFetchAdd, forged), ErrorCode::kUnknownKey);
}

TEST_P(Conformance, RefusesReachingPastTheEnd) {
  expect_only_it_fails(request(Op::kRead, token_.at(kBytes - 7)), ErrorCode::kOutOfBounds);
  expect_only_it_fails(request(Op::kWrite, token_.at(kBytes)), ErrorCode::kOutOfBounds);
  expect_only_it_fails(request(Op::kCompareSwap, token_.at(kBytes)), ErrorCode::kOutOfBounds);
  expect_only_it_fails(request(Op::kRead, token_.at(0), kBytes + 1), ErrorCode::kOutOfBounds);
}

TEST_P(Conformance, RefusesOffsetsThatWouldWrap) {
  expect_only_it_fails(request(Op::kRead, token_.at(~std::uint64_t{0} - 7), 16), ErrorCode::kOutOfBounds);
  expect_only_it_fails(request(Op::kWrite, token_.at(std::uint64_t{1} << 63), 16), ErrorCode::kOutOfBounds);
}

TEST_P(Conformance, RefusesMisalignedAtomics) {
  expect_only_it_fails(request(Op::kFetchAdd, token_.at(4)), ErrorCode::kMisaligned);
  expect_only_it_fails(request(Op::kCompareSwap, token_.at(17)), ErrorCode::kMisaligned);
}

TEST_P(Conformance, RefusesZeroAndHugeLengths) {
  expect_only_it_fails(request(Op::kRead, token_.at(0), 0), ErrorCode::kLengthInvalid);
  expect_only_it_fails(request(Op::kWrite, token_.at(0), 0), ErrorCode::kLengthInvalid);
  WorkRequest huge = request(Op::kRead, token_.at(0));
  const std::vector<LocalPiece> pieces(2, LocalPiece{scratch_.data(), 0xffffffffu});
  huge.local = pieces;
  expect_only_it_fails(huge, ErrorCode::kLengthInvalid);
}

TEST_P(Conformance, RefusesWhatTheRightsDoNotAllow) {
  const Memory memory = bed_->allocate(4096);
  Region read_only = register_region(memory, Rights::kRead);
  expect_only_it_fails(request(Op::kWrite, read_only.token().at(0)), ErrorCode::kAccessDenied);
  expect_only_it_fails(request(Op::kFetchAdd, read_only.token().at(0)), ErrorCode::kAccessDenied);
  const Memory other = bed_->allocate(4096);
  Region write_only = register_region(other, Rights::kWrite);
  expect_only_it_fails(request(Op::kRead, write_only.token().at(0)), ErrorCode::kAccessDenied);
  expect_only_it_fails(request(Op::kCompareSwap, write_only.token().at(0)), ErrorCode::kAccessDenied);
  EXPECT_EQ(std::to_integer<int>(memory.bytes[0]), 0);
}

TEST_P(Conformance, RefusesEverythingButReadingByDefault) {
  const Memory memory = bed_->allocate(4096);
  auto region = bed_->target().register_memory({.memory = memory.bytes, .backing = memory.backing});
  ASSERT_TRUE(region) << region.error();
  EXPECT_EQ(region->token().rights, Rights::kRead);
  expect_only_it_fails(request(Op::kWrite, region->token().at(0)), ErrorCode::kAccessDenied);
}

TEST_P(Conformance, RefusesTooManyPiecesAndTooMuchInline) {
  WorkRequest many = request(Op::kRead, token_.at(0));
  const std::vector<LocalPiece> pieces(std::size_t{client_->limits().max_pieces} + 1,
                                       LocalPiece::of(std::span(scratch_)));
  many.local = pieces;
  expect_only_it_fails(many, ErrorCode::kInvalidArgument);
  WorkRequest inlined = request(Op::kWrite, token_.at(0), std::size_t{client_->limits().max_inline} + 1);
  inlined.flags = RequestFlags::kInline;
  expect_only_it_fails(inlined, ErrorCode::kInvalidArgument);
}

TEST_P(Conformance, RefusesARevokedRegion) {
  const Memory memory = bed_->allocate(4096);
  Region region = register_region(memory, Rights::kAll);
  const RegionToken token = region.token();
  std::uint64_t value = 0;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  ASSERT_TRUE(client_->read(piece, token.at(0), soon()).wait());
  region.revoke();
  std::memset(memory.bytes.data(), 0xdd, memory.bytes.size());
  for (const Op op : {Op::kRead, Op::kWrite, Op::kFetchAdd}) {
    WorkRequest late = request(op, token.at(0));
    late.deadline = soon();
    const auto done = client_->perform(late).wait();
    ASSERT_FALSE(done);
    EXPECT_TRUE(is_refusal(done.error().code(), ErrorCode::kRegionRevoked) ||
                done.error() == ErrorCode::kUnknownKey)
        << done.error();
  }
  EXPECT_EQ(std::to_integer<int>(memory.bytes[0]), 0xdd);
  EXPECT_EQ(value, 0u);
  region.revoke();  // Idempotent.
  expect_healthy();
}

TEST_P(Conformance, RefusesARegionThatIsGone) {
  const Memory memory = bed_->allocate(4096);
  RegionToken token;
  {
    Region region = register_region(memory, Rights::kAll);
    token = region.token();
  }
  WorkRequest late = request(Op::kRead, token.at(0));
  late.deadline = soon();
  const auto done = client_->perform(late).wait();
  ASSERT_FALSE(done);
  expect_healthy();
}

TEST_P(Conformance, RefusesTheRegionOfAnotherTenant) {
  if (!bed_->target().capabilities().enforces_tenants) return;  // Documented: a NIC does not know tenants.
  const Memory memory = bed_->allocate(4096);
  auto region = bed_->target().register_memory(
      {.memory = memory.bytes, .rights = Rights::kAll, .backing = memory.backing, .tenant = TenantId{7}});
  ASSERT_TRUE(region) << region.error();
  expect_only_it_fails(request(Op::kRead, region->token().at(0)), ErrorCode::kTenantDenied);
  auto insider = bed_->initiator().connect(
      {.address = listener_->address(), .identity = {.tenant = TenantId{7}}}, *client_queue_);
  ASSERT_TRUE(insider) << insider.error();
  const auto peer = accept();
  WorkRequest allowed = request(Op::kRead, region->token().at(0));
  allowed.deadline = soon();
  EXPECT_TRUE((*insider)->perform(allowed).wait());
}

TEST_P(Conformance, RefusesToRegisterNothing) {
  EXPECT_FALSE(bed_->target().register_memory({.memory = {}, .rights = Rights::kRead}));
  EXPECT_FALSE(bed_->target().register_memory({.memory = memory_.bytes, .rights = Rights::kNone}));
}

}  // namespace
}  // namespace yonder::fabric::conformance
