#include "yonder/node/size_class.h"

#include <gtest/gtest.h>

#include <bit>

#include "yonder/node/block_table.h"

namespace yonder::node {
namespace {

SizeClasses classes(const SizeClassOptions& options = {}) { return SizeClasses::create(options).value(); }

TEST(SizeClasses, EveryObjectGetsASlotItFitsWithLittleWaste) {
  for (const Validator validator : {Validator::kReread, Validator::kLines, Validator::kChecksum}) {
    const SizeClasses all = classes({.validator = validator});
    for (std::uint32_t bytes = 1; bytes <= (1 << 18); bytes += bytes < 5000 ? 1 : 97) {
      const std::uint8_t index = all.class_for(bytes);
      if (index == kSpanClass) continue;
      const std::uint32_t need = all.slot_bytes_for(bytes);
      ASSERT_GE(all[index].slot_bytes, need) << bytes;
      ASSERT_TRUE(index == 0 || all[index - 1].slot_bytes < need) << "not the smallest class for " << bytes;
      if (need > 64) {
        ASSERT_LE(all[index].slot_bytes - need, all[index].slot_bytes / 8) << bytes;
      }
    }
  }
}

TEST(SizeClasses, FramesWasteLittleOfTheirTailAndHaveNoMoreBlocksThanNaturalIds) {
  const SizeClasses all = classes();
  for (std::size_t i = 0; i < all.count(); ++i) {
    const SizeClass& c = all[i];
    EXPECT_EQ(c.frame_bytes % kUnitBytes, 0u);
    EXPECT_TRUE(std::has_single_bit(c.block_slots));
    EXPECT_EQ(1u << c.block_shift, c.block_slots);
    EXPECT_LE(c.blocks, c.frame_bytes / kUnitBytes * BlockTable::kNaturalPerUnit) << c.slot_bytes;
    EXPECT_GE(c.slots, 1u);
    EXPECT_LE(c.slots, 1u << kSlotBits);
    EXPECT_LE(c.frame_bytes - c.slots * c.slot_bytes, c.frame_bytes / 64) << c.slot_bytes;
    EXPECT_EQ(c.blocks, (c.slots + c.block_slots - 1) / c.block_slots);
  }
  EXPECT_LT(all.count(), std::size_t{kSpanClass});
}

TEST(SizeClasses, LargeObjectsAreSpansOfUnits) {
  const SizeClasses all = classes();
  EXPECT_EQ(all.class_for(kMaxObjectBytes), kSpanClass);
  EXPECT_EQ(all.span_bytes_for(kMaxObjectBytes), std::uint64_t{kMaxObjectBytes} + kUnitBytes);
  EXPECT_NE(all.class_for((kMaxFrameBytes / 32) - kHeaderBytes), kSpanClass);
  EXPECT_EQ(all.class_for(kMaxFrameBytes / 32), kSpanClass);
}

TEST(SizeClasses, TakesOneFrameSizeForAllIfAsked) {
  const SizeClasses all = classes({.frame_bytes = 1 << 20});
  EXPECT_EQ(all[all.class_for(32)].frame_bytes, 1u << 20);
  EXPECT_EQ(all[all.class_for(8192)].frame_bytes, 1u << 20);
  EXPECT_FALSE(SizeClasses::create({.frame_bytes = 5000}));
  EXPECT_FALSE(SizeClasses::create({.frame_bytes = 2048}));
  EXPECT_FALSE(SizeClasses::create({.frame_bytes = 4 << 20}));
}

TEST(SizeClasses, SmallFramesHaveEnoughBlocksToPack) {
  const SizeClasses all = classes({.frame_bytes = 4096});
  EXPECT_GE(all[all.class_for(32)].blocks, 4u);
  EXPECT_GE(all[all.class_for(256)].blocks, 7u);
}

TEST(SizeClasses, HasOneBlockPerFrameForRemapping) {
  const SizeClasses all = classes({.frame_bytes = 4096, .whole_frame_blocks = true});
  EXPECT_EQ(all[all.class_for(32)].blocks, 1u);
}

}  // namespace
}  // namespace yonder::node
