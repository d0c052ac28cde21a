#include "yonder/segment/heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "yonder/os/mapping.h"

namespace yonder::segment {
namespace {

class HeapTest : public ::testing::Test {
 protected:
  os::Mapping memory_ = os::Mapping::anonymous({.bytes = std::size_t{1} << 20}).value();
  Heap* heap_ = Heap::format(memory_.bytes()).value();
};

TEST_F(HeapTest, StartsEmptyAndAllOfItCanBeHadInOnePiece) {
  EXPECT_EQ(heap_->used_bytes(), 0u);
  const std::size_t all = heap_->largest_allocation();
  EXPECT_GT(all, memory_.size() * 9 / 10);
  void* piece = heap_->try_allocate(all);
  ASSERT_NE(piece, nullptr);
  std::memset(piece, 0xff, Heap::usable_bytes(piece));
  EXPECT_TRUE(heap_->check_invariants());
  heap_->deallocate(piece);
  EXPECT_EQ(heap_->largest_allocation(), all);
  EXPECT_TRUE(heap_->check_invariants());
}

TEST_F(HeapTest, SaysNoWhenItIsFullAndServesAgainAfterAFree) {
  std::vector<void*> pieces;
  while (void* piece = heap_->try_allocate(1000)) pieces.push_back(piece);
  EXPECT_GT(pieces.size(), 1000u);
  EXPECT_EQ(heap_->try_allocate(1000), nullptr);
  heap_->deallocate(pieces[500]);
  EXPECT_EQ(heap_->try_allocate(1000), pieces[500]);
}

TEST_F(HeapTest, JoinsNeighboursSoThatSmallFreesMakeALargePiece) {
  std::vector<void*> pieces;
  while (void* piece = heap_->try_allocate(100)) pieces.push_back(piece);
  for (std::size_t i = 0; i < pieces.size(); i += 2) heap_->deallocate(pieces[i]);
  EXPECT_EQ(heap_->try_allocate(10'000), nullptr);
  for (std::size_t i = 1; i < 401; i += 2) heap_->deallocate(pieces[i]);
  EXPECT_NE(heap_->try_allocate(40'000), nullptr);
  EXPECT_TRUE(heap_->check_invariants());
}

TEST_F(HeapTest, GivesSmallPiecesThatWereFreedLastAgainAndJoinsThemWhenMemoryIsShort) {
  std::vector<void*> pieces;
  while (void* piece = heap_->try_allocate(100)) pieces.push_back(piece);
  // As many as are kept aside, side by side.
  for (std::size_t i = 0; i < 32; ++i) heap_->deallocate(pieces[i]);
  EXPECT_TRUE(heap_->check_invariants());
  EXPECT_EQ(heap_->allocations(), pieces.size() - 32);
  EXPECT_EQ(heap_->try_allocate(100), pieces[31]) << "what was freed last";
  heap_->deallocate(pieces[31]);
  EXPECT_EQ(heap_->try_allocate(32 * 112 - 8), pieces[0]) << "all of them in one piece";
  EXPECT_TRUE(heap_->check_invariants());
}

TEST_F(HeapTest, RefusesSizesThatNoAddressSpaceHas) {
  heap_->deallocate(heap_->try_allocate(1));
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX - 24, SIZE_MAX / 2})
    EXPECT_EQ(heap_->try_allocate(bytes), nullptr) << bytes;
}

TEST_F(HeapTest, NoticesThatASmallPieceIsFreedTwice) {
  void* piece = heap_->try_allocate(100);
  heap_->deallocate(piece);
  EXPECT_DEATH(heap_->deallocate(piece), "freed once");
}

TEST_F(HeapTest, AlignsAsAsked) {
  for (std::size_t alignment = 1; alignment <= 65536; alignment *= 2) {
    void* piece = heap_->try_allocate(24, alignment);
    ASSERT_NE(piece, nullptr) << alignment;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % std::max<std::size_t>(alignment, 16), 0u);
    EXPECT_TRUE(heap_->check_invariants());
  }
}

TEST_F(HeapTest, GoesOnAfterAdoption) {
  void* root = heap_->try_allocate(64);
  heap_->set_root(root);
  const Result<Heap*> adopted = Heap::adopt(memory_.bytes());
  ASSERT_TRUE(adopted);
  EXPECT_EQ((*adopted)->root(), root);
  EXPECT_EQ((*adopted)->allocations(), 1u);
}

TEST_F(HeapTest, AdoptsNoOtherBytes) {
  EXPECT_EQ(Heap::adopt(memory_.bytes().first(memory_.size() / 2)).error(), ErrorCode::kCorrupt);
  os::Mapping other = os::Mapping::anonymous({.bytes = memory_.size()}).value();
  EXPECT_EQ(Heap::adopt(other.bytes()).error(), ErrorCode::kCorrupt);
  // The right bytes at another address would hold pointers into nowhere.
  std::memcpy(other.data(), memory_.data(), memory_.size());
  EXPECT_EQ(Heap::adopt(other.bytes()).error(), ErrorCode::kCorrupt);
}

TEST_F(HeapTest, RefusesMemoryThatIsTooSmallOrCrooked) {
  EXPECT_EQ(Heap::format(memory_.bytes().first(100)).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Heap::format(memory_.bytes().subspan(8)).error(), ErrorCode::kInvalidArgument);
}

TEST_F(HeapTest, RefusesSizesBeyondItself) {
  EXPECT_EQ(heap_->try_allocate(memory_.size()), nullptr);
  EXPECT_EQ(heap_->try_allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap_->try_allocate(SIZE_MAX - 100, 4096), nullptr);
}

TEST_F(HeapTest, TouchesOnlyWhatItNeeded) {
  os::Mapping large = os::Mapping::anonymous({.bytes = std::size_t{1} << 30}).value();
  Heap* heap = Heap::format(large.bytes()).value();
  for (int i = 0; i < 1000; ++i) ASSERT_NE(heap->try_allocate(1000), nullptr);
  EXPECT_LT(heap->touched_bytes(), std::size_t{1100} * 1024);
}

TEST_F(HeapTest, TellsWhatCouldBeGivenBack) {
  void* large = heap_->try_allocate(100'000);
  void* guard = heap_->try_allocate(16);
  ASSERT_NE(guard, nullptr);
  heap_->deallocate(large);
  std::size_t bytes = 0;
  heap_->for_each_free(50'000, [&](std::span<std::byte> inside) {
    std::memset(inside.data(), 0, inside.size());
    bytes += inside.size();
  });
  EXPECT_GT(bytes, 900'000u);
  EXPECT_TRUE(heap_->check_invariants());
}

TEST_F(HeapTest, AbortsOnADoubleFree) {
  void* piece = heap_->try_allocate(64);
  heap_->deallocate(piece);
  EXPECT_DEATH(heap_->deallocate(piece), "freed once");
}

}  // namespace
}  // namespace yonder::segment
