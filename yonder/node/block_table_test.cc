#include "yonder/node/block_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace yonder::node {
namespace {

std::unique_ptr<BlockTable> table(std::uint32_t natural, std::uint32_t spare) {
  return BlockTable::create({.natural = natural, .spare = spare}).value();
}

TEST(BlockEntry, KeepsItsFields) {
  const BlockEntry entry(FrameId(12345), 77, 9);
  EXPECT_TRUE(entry.valid());
  EXPECT_EQ(entry.frame(), FrameId(12345));
  EXPECT_EQ(entry.size_class(), 77);
  EXPECT_EQ(entry.generation(), 9u);
  EXPECT_FALSE(BlockEntry().valid());
}

TEST(BlockTable, PublishesWhereABlockIs) {
  const auto blocks = table(64, 4);
  const BlockId block = blocks->open(FrameId(3), 1, 5).value();
  EXPECT_EQ(block, BlockId(3 * 2 + 1)) << "its natural id";
  EXPECT_EQ(BlockTable::guess(block, 1), FrameId(3));
  EXPECT_EQ(BlockTable::guess(blocks->open(FrameId(8), 5, 5).value(), 5), FrameId(8)) << "a frame of units";
  EXPECT_EQ(blocks->lookup(block).frame(), FrameId(3));
  const std::uint32_t generation = blocks->lookup(block).generation();
  ASSERT_TRUE(blocks->publish(block, FrameId(4), 5));
  EXPECT_EQ(blocks->lookup(block).frame(), FrameId(4));
  EXPECT_NE(blocks->lookup(block).generation(), generation);
}

TEST(BlockTable, DoesNotGiveABlockTheNaturalIdOfAnother) {
  const auto blocks = table(64, 4);
  EXPECT_EQ(blocks->open(FrameId(3), BlockTable::kNotNatural, 5).value(), BlockId(64));
}

TEST(BlockTable, NeverGivesTheNullPointersBlock) {
  const auto blocks = table(64, 4);
  EXPECT_EQ(blocks->open(FrameId(0), 0, 1).value(), BlockId(64));
  EXPECT_EQ(table(0, 4)->open(FrameId(0), 0, 1).value(), BlockId(1));
}

TEST(BlockTable, KeepsAClosedBlockUntilItsLastObjectIsGone) {
  const auto blocks = table(64, 4);
  const BlockId block = blocks->open(FrameId(1), 0, 0).value();
  blocks->one_left(block);
  blocks->one_left(block);
  blocks->close(block);
  EXPECT_FALSE(blocks->is_open(block));
  EXPECT_EQ(blocks->away_count(block), 2u);
  blocks->one_gone(block);
  EXPECT_TRUE(blocks->lookup(block).valid());
  EXPECT_EQ(blocks->open(FrameId(1), 0, 0).value(), BlockId(64)) << "the natural id is still in use";
  blocks->one_gone(block);
  EXPECT_FALSE(blocks->lookup(block).valid());
  EXPECT_EQ(blocks->in_use(), 1u);
}

TEST(BlockTable, ClosingAnEmptyBlockGivesItsIdBackWithANewGeneration) {
  const auto blocks = table(64, 4);
  const BlockId block = blocks->open(FrameId(1), 2, 0).value();
  const BlockEntry old = blocks->lookup(block);
  blocks->close(block);
  EXPECT_FALSE(blocks->lookup(block).valid());
  ASSERT_EQ(blocks->open(FrameId(1), 2, 0).value(), block);
  EXPECT_NE(blocks->lookup(block), old);
}

TEST(BlockTable, AHeldBlockOutlivesItsLastObject) {
  const auto blocks = table(64, 4);
  const BlockId block = blocks->open(FrameId(1), 0, 0).value();
  blocks->one_left(block);
  blocks->close(block);
  ASSERT_TRUE(blocks->try_hold(block));
  blocks->one_gone(block);
  EXPECT_TRUE(blocks->lookup(block).valid());
  blocks->one_gone(block);
  EXPECT_FALSE(blocks->lookup(block).valid());
  EXPECT_FALSE(blocks->try_hold(block));
}

TEST(BlockTable, SaysWhenItIsFullAndIgnoresForeignIds) {
  const auto blocks = table(0, 4);
  std::vector<BlockId> ids;
  for (std::uint32_t i = 0; i < 3; ++i) ids.push_back(blocks->open(FrameId(i), 0, 0).value());
  EXPECT_EQ(blocks->open(FrameId(9), 0, 0).error(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(blocks->in_use(), 3u);
  blocks->close(ids[1]);
  EXPECT_EQ(blocks->open(FrameId(9), 0, 0).value(), ids[1]);
  EXPECT_FALSE(blocks->lookup(BlockId(1 << 25)).valid());
  EXPECT_FALSE(BlockTable::create({.natural = 0, .spare = 1}));
  EXPECT_FALSE(BlockTable::create({.natural = 1u << 26, .spare = 1}));
}

class ManualClock final : public Clock {
 public:
  Instant now() const override { return time; }
  Instant time;
};

TEST(BlockTable, LetsAnIdRestBeforeItsNextUse) {
  ManualClock clock;
  const auto blocks =
      BlockTable::create({.spare = 3, .clock = &clock, .rest = std::chrono::milliseconds(20)}).value();
  const BlockId first = blocks->open(FrameId(0), 0, 0).value();
  blocks->close(first);
  const BlockId second = blocks->open(FrameId(0), 0, 1).value();
  EXPECT_NE(second, first);
  blocks->close(second);
  EXPECT_EQ(blocks->open(FrameId(0), 0, 0).error(), ErrorCode::kResourceExhausted) << "all are resting";
  clock.time = clock.time + std::chrono::milliseconds(20);
  EXPECT_EQ(blocks->open(FrameId(0), 0, 0).value(), first);
}

// Publishes nothing, and says so when asked to.
class Mirror final : public BlockMirror {
 public:
  Result<void> place(BlockId, FrameId, std::uint8_t) override { return answer; }
  Result<void> move(BlockId, FrameId, std::uint8_t) override { return answer; }
  void remove(BlockId block, std::uint8_t) override { removed.push_back(block); }

  Result<void> answer;
  std::vector<BlockId> removed;
};

TEST(BlockTable, SaysNothingThatItsMirrorDoesNot) {
  Mirror mirror;
  const auto blocks = table(0, 4);
  blocks->set_mirror(&mirror);
  const BlockId block = blocks->open(FrameId(1), 0, 0).value();
  mirror.answer = fail(ErrorCode::kOutOfMemory, "a mirror that the test breaks");
  EXPECT_EQ(blocks->publish(block, FrameId(2), 0).error(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(blocks->lookup(block).frame(), FrameId(1));
  EXPECT_EQ(blocks->open(FrameId(3), 0, 0).error(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(mirror.removed.size(), 1u) << "what was placed in part is removed";
  EXPECT_EQ(blocks->in_use(), 1u);
}

}  // namespace
}  // namespace yonder::node
