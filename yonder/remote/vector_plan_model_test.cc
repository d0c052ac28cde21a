// Plans of random vectors against what their pieces say: nothing is lost, nothing is
// done twice, limits hold, and carrying a plan out is as good as taking the pieces one
// by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/remote/internal/vector_plan.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::remote::internal {
namespace {

constexpr std::size_t kMemory = 2048;

// Bytes are told apart by the piece that wrote them.
std::vector<VectorPiece> random_vector(Prng& random, std::vector<std::byte>& storage) {
  std::vector<VectorPiece> pieces(random.below(40));
  storage.assign(kMemory * 2, std::byte{0});
  std::uint64_t next = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto length = static_cast<std::uint32_t>(random.chance(0.1) ? 0 : random.between(1, 40));
    // Mostly next to the one before, sometimes anywhere: overlaps, and not sorted.
    if (random.chance(0.3) || next + length > kMemory) next = random.below(kMemory - 40);
    std::fill_n(storage.begin() + static_cast<std::ptrdiff_t>(used), length, static_cast<std::byte>(i + 1));
    pieces[i] = {{storage.data() + used, length}, {{random.chance(0.9) ? 1U : 2U}, next}};
    used += length;
    next += length;
  }
  return pieces;
}

PlanRules random_rules(Prng& random, const CostModel& costs) {
  constexpr Strategy kStrategies[] = {Strategy::kAuto, Strategy::kPack, Strategy::kDoorbell,
                                      Strategy::kGather};
  return {.strategy = kStrategies[random.below(4)],
          .is_write = random.chance(0.5),
          .max_pieces = static_cast<std::uint32_t>(random.between(1, 8)),
          .max_transfer = random.between(40, 200),
          .max_pack_bytes = static_cast<std::uint32_t>(random.between(16, 128)),
          .max_inline = static_cast<std::uint32_t>(random.below(100)),
          .costs = &costs};
}

// The memory of two regions, one behind the other.
using Memory = std::vector<std::byte>;

void put(Memory& memory, const VectorPiece& piece) {
  const std::size_t base = (piece.remote.key.value - 1) * kMemory + piece.remote.offset;
  std::copy_n(piece.local.data, piece.local.length, memory.begin() + static_cast<std::ptrdiff_t>(base));
}

void expect_limits(const VectorPlan& plan, const Part& part, std::span<const VectorPiece> pieces,
                   const PlanRules& rules) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < part.count; ++i) {
    const VectorPiece& piece = pieces[plan.order()[part.first + i]];
    const VectorPiece& first = pieces[plan.order()[part.first]];
    ASSERT_EQ(piece.remote, first.remote + bytes);  // One run.
    bytes += piece.local.length;
  }
  ASSERT_EQ(bytes, part.bytes);
  ASSERT_EQ(part.way == Way::kInPlace, part.count == 1);
  if (part.count == 1) return;
  ASSERT_LE(part.bytes, rules.max_transfer);
  if (part.way == Way::kGather) {
    ASSERT_LE(part.count, rules.max_pieces);
  }
  if (part.way == Way::kPack) {
    ASSERT_LE(part.bytes, rules.max_pack_bytes);
  }
}

TEST(VectorPlan, IsAsGoodAsThePiecesOneByOne) {
  Prng random(testing::test_seed());
  VectorPlan plan;
  std::vector<std::byte> storage;
  const CostModel costs;
  const std::uint64_t rounds = testing::scaled<std::uint64_t>(20'000) * testing::test_effort();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto pieces = random_vector(random, storage);
    const PlanRules rules = random_rules(random, costs);
    plan.make(pieces, rules);

    std::vector<std::uint32_t> carried;
    Memory by_plan(kMemory * 2);
    for (const Part& part : plan.parts()) {
      ASSERT_EQ(part.first, carried.size());
      ASSERT_NO_FATAL_FAILURE(expect_limits(plan, part, pieces, rules));
      for (std::uint32_t i = 0; i < part.count; ++i) {
        carried.push_back(plan.order()[part.first + i]);
        put(by_plan, pieces[carried.back()]);
      }
    }
    std::vector<std::uint32_t> wanted;
    Memory one_by_one(kMemory * 2);
    for (std::uint32_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].local.length == 0) continue;
      wanted.push_back(i);
      put(one_by_one, pieces[i]);
    }
    std::sort(carried.begin(), carried.end());
    ASSERT_EQ(carried, wanted) << "round " << round;
    if (rules.is_write) {
      ASSERT_EQ(by_plan, one_by_one) << "round " << round;
    }
  }
}

TEST(VectorPlan, TheCheapestWayIsChosen) {
  CostModel costs{
      .request_ns = 200, .gather_piece_ns = 20, .gather_byte_ns = 0, .pack_piece_ns = 5, .pack_byte_ns = 0.1};
  const PlanRules rules{.max_pieces = 32, .max_transfer = 1 << 30, .max_pack_bytes = 16384, .costs = &costs};
  EXPECT_EQ(choose(rules, 16, 16 * 32), Way::kPack);      // 200 + 80 + 51 against 200 + 320.
  EXPECT_EQ(choose(rules, 16, 16 * 1024), Way::kGather);  // … + 1638.
  EXPECT_EQ(choose(rules, 1, 32), Way::kInPlace);
  costs.request_ns = 4;
  EXPECT_EQ(choose(rules, 16, 16 * 1024), Way::kInPlace);
}

TEST(VectorPlan, WhatGoesAlongWithARequestIsPackedAndNotGathered) {
  const CostModel costs{
      .request_ns = 200, .gather_piece_ns = 5, .gather_byte_ns = 0, .pack_piece_ns = 10, .pack_byte_ns = 0.1};
  PlanRules rules{.max_pieces = 32, .max_transfer = 1 << 30, .max_pack_bytes = 16384, .costs = &costs};
  EXPECT_EQ(choose(rules, 4, 128), Way::kGather);  // 200 + 20 against 200 + 40 + 13.
  rules.max_inline = 128;
  EXPECT_EQ(choose(rules, 4, 128), Way::kPack) << "the NIC need not fetch it";
  EXPECT_EQ(choose(rules, 5, 160), Way::kGather) << "too large";
  rules.is_write = false;
  EXPECT_EQ(choose(rules, 4, 128), Way::kGather) << "nothing goes along with a read";
}

}  // namespace
}  // namespace yonder::remote::internal
