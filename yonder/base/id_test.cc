#include "yonder/base/id.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace yonder {
namespace {

template <typename T>
concept Addable = requires(T a, T b) { a + b; };

TEST(StrongId, IsNoNumber) {
  static_assert(!std::is_convertible_v<std::uint32_t, TenantId>);
  static_assert(!std::is_convertible_v<TenantId, std::uint32_t>);
  static_assert(!std::is_constructible_v<Epoch, TenantId>);
  static_assert(!Addable<Epoch>);
  static_assert(sizeof(TenantId) == 4 && sizeof(Epoch) == 8);
  static_assert(std::is_trivially_copyable_v<Epoch>);
}

TEST(StrongId, ComparesAndHashesLikeItsNumber) {
  EXPECT_EQ(TenantId(), TenantId(0));
  EXPECT_LT(Epoch(1), Epoch(2));
  EXPECT_EQ(next(Epoch(1)), Epoch(2));
  std::unordered_set<TenantId> tenants{TenantId(1), TenantId(2), TenantId(1)};
  EXPECT_EQ(tenants.size(), 2u);
  EXPECT_TRUE(tenants.contains(TenantId(2)));
}

TEST(Bytes, LiteralsArePowersOf1024) {
  static_assert(1_KiB == 1024_B && 1_MiB == 1024 * 1_KiB && 1_GiB == 1024 * 1_MiB && 1_TiB == 1_GiB * 1024);
  static_assert(!std::is_convertible_v<int, Bytes>);
}

TEST(Bytes, CheckedArithmeticRefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_add(Bytes::max(), 1_B), std::nullopt);
  EXPECT_EQ(checked_add(Bytes::max() - 1_B, 1_B), Bytes::max());
  EXPECT_EQ(checked_sub(1_KiB, 1025_B), std::nullopt);
  EXPECT_EQ(checked_sub(1_KiB, 1024_B), 0_B);
  EXPECT_EQ(checked_mul(Bytes(std::uint64_t{1} << 33), std::uint64_t{1} << 31), std::nullopt);
  EXPECT_EQ(checked_mul(3_KiB, 2), 6_KiB);
}

TEST(Bytes, DividesIntoCountsPartsAndRests) {
  EXPECT_EQ(10_KiB / 4_KiB, 2u);
  EXPECT_EQ(10_KiB % 4_KiB, 2_KiB);
  EXPECT_EQ(10_KiB / 4, Bytes(2560));
}

TEST(BytesDeathTest, OperatorsAbortInsteadOfWrapping) {
  Bytes amount = 1_B;
  EXPECT_DEATH(amount -= 2_B, "byte arithmetic left the range");
  EXPECT_DEATH(amount += Bytes::max(), "byte arithmetic left the range");
  EXPECT_DEATH((void)(amount / Bytes()), "divided by zero");
}

}  // namespace
}  // namespace yonder
