// Regions of the conformance suite: keys, rebinding, many of them.
#include <cstring>
#include <set>

#include "yonder/fabric/conformance/bed.h"

namespace yonder::fabric::conformance {
namespace {

TEST_P(Conformance, KeysAreAllDifferentAndLookRandom) {
  constexpr int kCount = 64;
  const Memory memory = bed_->allocate(4096);
  std::set<std::uint64_t> keys;
  std::vector<Region> regions;
  std::uint64_t all_or = 0;
  std::uint64_t all_and = ~std::uint64_t{0};
  for (int i = 0; i < kCount; ++i) {
    regions.push_back(register_region(memory, Rights::kRead));
    const std::uint64_t key = regions.back().token().key.value;
    EXPECT_TRUE(keys.insert(key).second);
    all_or |= key;
    all_and &= key;
  }
  // The upper half is random on every provider: 64 draws leave no bit constant
  // (probability 2^-58).
  EXPECT_EQ(all_or >> 32, 0xffffffffu);
  EXPECT_EQ(all_and >> 32, 0u);
}

TEST_P(Conformance, TwoRegionsOverOneMemoryHaveTheirOwnRights) {
  Region reader = register_region(memory_, Rights::kRead);
  std::uint64_t value = 5;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_FALSE(client_->write(piece, reader.token().at(0), soon()).wait());
  EXPECT_TRUE(client_->write(piece, token_.at(0), soon()).wait());
  value = 0;
  EXPECT_TRUE(client_->read(piece, reader.token().at(0), soon()).wait());
  EXPECT_EQ(value, 5u);
  reader.revoke();
  EXPECT_FALSE(client_->read(piece, reader.token().at(0), soon()).wait());
  EXPECT_TRUE(client_->read(piece, token_.at(0), soon()).wait());
}

TEST_P(Conformance, RebindKeepsTheKeyAndShowsTheNewMemory) {
  if (!bed_->target().capabilities().rebind) {
    const Memory other = bed_->allocate(kBytes);
    const auto rebound = region_.rebind(other.bytes, other.backing);
    ASSERT_FALSE(rebound);
    EXPECT_EQ(rebound.error(), ErrorCode::kUnsupported);
    expect_healthy();
    return;
  }
  std::uint64_t value = 1;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  std::memcpy(memory_.bytes.data(), &value, 8);
  ASSERT_TRUE(client_->read(piece, token_.at(0), soon()).wait());
  for (std::uint64_t round = 2; round < 6; ++round) {
    const Memory other = bed_->allocate(kBytes);
    std::memcpy(other.bytes.data(), &round, 8);
    const auto rebound = region_.rebind(other.bytes, other.backing);
    ASSERT_TRUE(rebound) << rebound.error();
    EXPECT_EQ(region_.token(), token_);
    std::memset(memory_.bytes.data(), 0xdd, 8);
    memory_ = other;
    const auto done = client_->read(piece, token_.at(0), soon()).wait();
    ASSERT_TRUE(done) << done.error();
    EXPECT_EQ(value, round);
  }
  region_.revoke();
  const auto late = region_.rebind(memory_.bytes, memory_.backing);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), ErrorCode::kClosed);
}

TEST_P(Conformance, ManyRegionsAreAllReachable) {
  constexpr std::size_t kCount = 500;
  const Memory memory = bed_->allocate(4096);
  std::vector<Region> regions;
  for (std::size_t i = 0; i < kCount; ++i) regions.push_back(register_region(memory, Rights::kRead));
  std::uint64_t expected = 0x1234567890abcdefULL;
  std::memcpy(memory.bytes.data() + 8, &expected, 8);
  for (const Region& region : regions) {
    std::uint64_t value = 0;
    const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
    ASSERT_TRUE(client_->read(piece, region.token().at(8), soon()).wait());
    ASSERT_EQ(value, expected);
  }
}

TEST_P(Conformance, AMovedRegionHandleStaysLive) {
  const Memory memory = bed_->allocate(4096);
  Region first = register_region(memory, Rights::kRead);
  Region second = std::move(first);
  std::uint64_t value = 0;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_TRUE(client_->read(piece, second.token().at(0), soon()).wait());
}

}  // namespace
}  // namespace yonder::fabric::conformance
