#include "yonder/node/block_table.h"

#include <gtest/gtest.h>

namespace yonder::node {
namespace {

TEST(BlockEntry, KeepsItsFields) {
  const BlockEntry entry(FrameId(12345), 77, 9);
  EXPECT_TRUE(entry.valid());
  EXPECT_EQ(entry.frame(), FrameId(12345));
  EXPECT_EQ(entry.size_class(), 77);
  EXPECT_EQ(entry.generation(), 9u);
  EXPECT_FALSE(BlockEntry().valid());
}

TEST(BlockTable, PublishesWhereABlockIs) {
  const auto table = BlockTable::create(16).value();
  const BlockId block = table->take().value();
  EXPECT_NE(block, BlockId(0)) << "the null pointer's block";
  EXPECT_FALSE(table->lookup(block).valid());
  table->publish(block, FrameId(3), 5);
  EXPECT_EQ(table->lookup(block).frame(), FrameId(3));
  const std::uint32_t generation = table->lookup(block).generation();
  table->publish(block, FrameId(4), 5);
  EXPECT_EQ(table->lookup(block).frame(), FrameId(4));
  EXPECT_NE(table->lookup(block).generation(), generation);
}

TEST(BlockTable, ReusesIdsWithANewGeneration) {
  const auto table = BlockTable::create(4).value();
  const BlockId block = table->take().value();
  table->publish(block, FrameId(1), 0);
  const BlockEntry old = table->lookup(block);
  table->give_back(block);
  EXPECT_FALSE(table->lookup(block).valid());
  ASSERT_EQ(table->take().value(), block);
  table->publish(block, FrameId(1), 0);
  EXPECT_NE(table->lookup(block), old);
}

TEST(BlockTable, SaysWhenItIsFullAndIgnoresForeignIds) {
  const auto table = BlockTable::create(4).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(table->take());
  EXPECT_EQ(table->take().error(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(table->in_use(), 3u);
  EXPECT_FALSE(table->lookup(BlockId(1 << 25)).valid());
  EXPECT_FALSE(BlockTable::create(1));
}

}  // namespace
}  // namespace yonder::node
