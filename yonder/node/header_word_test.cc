#include "yonder/node/header_word.h"

#include <gtest/gtest.h>

namespace yonder::node {
namespace {

constexpr std::uint32_t kLastVersion = (1u << kVersionBits) - 1;

HeaderWord live(std::uint32_t version) {
  return HeaderWord::of(BlockId((1u << kBlockIdBits) - 1), ObjectId(65535), version, SlotState::kLive);
}

TEST(HeaderWord, KeepsItsFieldsAtTheirLimits) {
  const HeaderWord word = live(kLastVersion);
  EXPECT_EQ(word.home(), BlockId((1u << kBlockIdBits) - 1));
  EXPECT_EQ(word.id(), ObjectId(65535));
  EXPECT_EQ(word.version(), kLastVersion);
  EXPECT_EQ(word.state(), SlotState::kLive);
  const HeaderWord moved = HeaderWord::moved_to(FrameId((1u << kFrameIdBits) - 1), (1u << kSlotBits) - 1);
  EXPECT_TRUE(moved.is_moved());
  EXPECT_EQ(moved.frame(), FrameId((1u << kFrameIdBits) - 1));
  EXPECT_EQ(moved.slot(), (1u << kSlotBits) - 1);
}

TEST(HeaderWord, AFreedSlotKeepsVersionAndIdForItsNextObject) {
  const HeaderWord freed = live(7).freed();
  EXPECT_TRUE(freed.is_free());
  EXPECT_FALSE(freed.never_used());
  EXPECT_EQ(freed.version(), 8u);
  EXPECT_EQ(freed.id(), ObjectId(65535));
  EXPECT_EQ(freed.reused_by(BlockId(4), ObjectId(2)).version(), 9u);
  EXPECT_TRUE(HeaderWord().is_free());
  EXPECT_TRUE(HeaderWord().never_used());
}

TEST(HeaderWord, TheVersionNeverReturnsToThatOfUnusedMemory) {
  EXPECT_EQ(live(kLastVersion).written().version(), 1u);
  EXPECT_EQ(live(kLastVersion).freed().version(), 1u);
}

TEST(HeaderWord, IsBlankUntilTheFirstWriteWhateverHappensToTheObject) {
  const HeaderWord blank = live(7).freed().reused_by(BlockId(4), ObjectId(2)).as_blank();
  EXPECT_TRUE(blank.is_blank());
  EXPECT_TRUE(blank.names(BlockId(4), ObjectId(2)));
  EXPECT_EQ(blank.version(), 9u);
  EXPECT_TRUE(blank.is_readable());
  EXPECT_TRUE(blank.with_state(SlotState::kMoving).is_blank());
  const HeaderWord renamed = blank.renamed(BlockId(5), ObjectId(3));
  EXPECT_TRUE(renamed.is_blank() && renamed.names(BlockId(5), ObjectId(3)));
  EXPECT_EQ(renamed.version(), 9u);
  EXPECT_FALSE(blank.written().is_blank());
  EXPECT_FALSE(blank.freed().is_blank());
  EXPECT_FALSE(live(7).renamed(BlockId(5), ObjectId(3)).is_blank());
  EXPECT_FALSE(proves_copy(blank, blank)) << "what lies in the slot is not the object's";
}

TEST(HeaderWord, ProvesACopyOnlyWithinOneVersionOfOneObject) {
  EXPECT_TRUE(proves_copy(live(3), live(3)));
  EXPECT_TRUE(proves_copy(live(3), live(3).with_state(SlotState::kMoving))) << "readers go on during a move";
  EXPECT_FALSE(proves_copy(live(3), live(3).with_state(SlotState::kWriting)));
  EXPECT_FALSE(proves_copy(live(3), live(3).written()));
  EXPECT_FALSE(proves_copy(live(3), live(3).freed()));
  EXPECT_FALSE(proves_copy(live(3), HeaderWord::moved_to(FrameId(1), 1)));
  EXPECT_FALSE(proves_copy(live(3), HeaderWord::of(BlockId(9), ObjectId(65535), 3, SlotState::kLive)));
  EXPECT_FALSE(proves_copy(HeaderWord(), HeaderWord())) << "free memory is no object";
}

}  // namespace
}  // namespace yonder::node
