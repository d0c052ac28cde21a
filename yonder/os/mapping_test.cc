#include "yonder/os/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "yonder/os/memfd.h"

namespace yonder::os {
namespace {

// Whether the page at `address` has memory of its own right now.
bool is_resident(const std::byte* address) {
  unsigned char state = 0;
  return ::mincore(const_cast<std::byte*>(address), kPageBytes, &state) == 0 && (state & 1) != 0;
}

bool is_mapped(const std::byte* address) {
  unsigned char state = 0;
  return ::mincore(const_cast<std::byte*>(address), kPageBytes, &state) == 0;
}

Memfd numbered_pages(std::size_t count) {
  Memfd memfd = Memfd::create({.size = count * kPageBytes}).value();
  const Mapping all =
      Mapping::of_file(memfd.fd(), {.bytes = memfd.size(), .protection = Protection::kReadWrite}).value();
  for (std::size_t i = 0; i < count; ++i) all.bytes()[i * kPageBytes] = std::byte(i + 1);
  return memfd;
}

TEST(Mapping, AnonymousMemoryIsZeroedAndWritable) {
  const Mapping mapping = Mapping::anonymous({.bytes = 5000}).value();
  EXPECT_EQ(mapping.size(), 8192u);
  EXPECT_EQ(mapping.bytes()[8191], std::byte{0});
  mapping.bytes()[8191] = std::byte{1};
  EXPECT_TRUE(mapping.contains(mapping.data() + 8191));
  EXPECT_FALSE(mapping.contains(mapping.data() + 8192));
}

TEST(Mapping, UnmapsWhenItsOwnerGoesAndMovesKeepTheAddress) {
  Mapping first = Mapping::anonymous({.bytes = kPageBytes}).value();
  std::byte* const at = first.data();
  {
    const Mapping second = std::move(first);
    EXPECT_EQ(second.data(), at);
    EXPECT_TRUE(is_mapped(at));
  }
  EXPECT_FALSE(is_mapped(at));
}

TEST(Mapping, PopulateFillsPagesBeforeTheFirstTouch) {
  EXPECT_TRUE(is_resident(Mapping::anonymous({.bytes = kPageBytes, .populate = true}).value().data()));
  EXPECT_FALSE(is_resident(Mapping::anonymous({.bytes = kPageBytes}).value().data()));
}

TEST(Mapping, MapsAPieceOfAFile) {
  const Memfd memfd = numbered_pages(4);
  const Mapping piece = Mapping::of_file(memfd.fd(), {.offset = 2 * kPageBytes, .bytes = kPageBytes}).value();
  EXPECT_EQ(piece.bytes()[0], std::byte{3});
}

TEST(Mapping, PrivateFileMappingsDoNotWriteBack) {
  const Memfd memfd = numbered_pages(1);
  const Mapping copy =
      Mapping::of_file(memfd.fd(),
                       {.bytes = kPageBytes, .protection = Protection::kReadWrite, .shared = false})
          .value();
  copy.bytes()[0] = std::byte{99};
  EXPECT_EQ(Mapping::of_file(memfd.fd(), {.bytes = kPageBytes}).value().bytes()[0], std::byte{1});
}

TEST(Mapping, AFixedAddressIsNeverTakenFromOthers) {
  Mapping taken = Mapping::reserve({.bytes = 2 * kPageBytes}).value();
  std::byte* const at = taken.data();
  const Memfd memfd = numbered_pages(1);
  EXPECT_EQ(Mapping::anonymous({.bytes = kPageBytes, .at = at}).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(Mapping::of_file(memfd.fd(), {.bytes = kPageBytes, .at = at}).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(Mapping::reserve({.bytes = kPageBytes, .at = at}).error(), ErrorCode::kAlreadyExists);
  taken.reset();
  EXPECT_EQ(Mapping::reserve({.bytes = kPageBytes, .at = at}).value().data(), at);
}

TEST(Mapping, ReservationsAreAlignedAndCostNoMemory) {
  const std::size_t alignment = std::size_t{1} << 30;
  const Mapping arena = Mapping::reserve({.bytes = std::size_t{1} << 40, .alignment = alignment}).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data()) % alignment, 0u);
  EXPECT_FALSE(is_resident(arena.data()));
}

TEST(Mapping, ReplacesPartsOfAReservation) {
  const Memfd memfd = numbered_pages(4);
  Mapping arena = Mapping::reserve({.bytes = 4 * kPageBytes}).value();
  ASSERT_TRUE(arena.remap_file(kPageBytes, memfd.fd(), {.offset = 3 * kPageBytes, .bytes = kPageBytes}));
  EXPECT_EQ(arena.bytes()[kPageBytes], std::byte{4});
  ASSERT_TRUE(arena.remap_file(kPageBytes, memfd.fd(), {.offset = 0, .bytes = kPageBytes}));
  EXPECT_EQ(arena.bytes()[kPageBytes], std::byte{1});
  ASSERT_TRUE(arena.remap_anonymous(kPageBytes, kPageBytes));
  EXPECT_EQ(arena.bytes()[kPageBytes], std::byte{0});
  ASSERT_TRUE(arena.remap_reserved(kPageBytes, kPageBytes));
  EXPECT_DEATH(arena.bytes()[kPageBytes] = std::byte{1}, "");
}

TEST(Mapping, RefusesRangesThatAreMisalignedOrOutside) {
  const Memfd memfd = numbered_pages(2);
  Mapping arena = Mapping::reserve({.bytes = 2 * kPageBytes}).value();
  EXPECT_EQ(arena.remap_file(kPageBytes, memfd.fd(), {.bytes = 2 * kPageBytes}).error(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(arena.remap_file(0, memfd.fd(), {.offset = 7, .bytes = kPageBytes}).error(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(arena.remap_anonymous(1, kPageBytes).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(arena.remap_anonymous(3 * kPageBytes, kPageBytes).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(arena.protect(0, 0, Protection::kRead).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(arena.drop_pages(0, ~std::size_t{0} - kPageBytes + 1).error(), ErrorCode::kInvalidArgument);
}

TEST(Mapping, MakersRefuseNonsense) {
  const Memfd memfd = numbered_pages(1);
  EXPECT_EQ(Mapping::anonymous({.bytes = 0}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Mapping::reserve({.bytes = kPageBytes, .alignment = 3 * kPageBytes}).error(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(Mapping::of_file(memfd.fd(), {.offset = 1, .bytes = kPageBytes}).error(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(Mapping::of_file(Fd(), {.bytes = kPageBytes}).error(), ErrorCode::kOsError);
  EXPECT_EQ(Mapping::reserve({.bytes = std::size_t{1} << 62}).error(), ErrorCode::kOutOfMemory);
}

TEST(Mapping, ProtectionIsEnforced) {
  Mapping mapping = Mapping::anonymous({.bytes = kPageBytes}).value();
  mapping.bytes()[0] = std::byte{5};
  ASSERT_TRUE(mapping.protect(0, kPageBytes, Protection::kRead));
  EXPECT_EQ(mapping.bytes()[0], std::byte{5});
  EXPECT_DEATH(mapping.bytes()[0] = std::byte{6}, "");
  ASSERT_TRUE(mapping.protect(0, kPageBytes, Protection::kReadWrite));
  mapping.bytes()[0] = std::byte{6};
}

TEST(Mapping, DroppedPagesReadAsZero) {
  Mapping mapping = Mapping::anonymous({.bytes = 2 * kPageBytes}).value();
  mapping.bytes()[0] = mapping.bytes()[kPageBytes] = std::byte{5};
  ASSERT_TRUE(mapping.drop_pages(kPageBytes, kPageBytes));
  EXPECT_EQ(mapping.bytes()[0], std::byte{5});
  EXPECT_EQ(mapping.bytes()[kPageBytes], std::byte{0});
}

TEST(Mapping, PopulateWriteAllocatesAndRefusesWhatHasNoFileBehindIt) {
  const Memfd memfd = Memfd::create({.size = kPageBytes}).value();
  Mapping mapping =
      Mapping::of_file(memfd.fd(), {.bytes = 2 * kPageBytes, .protection = Protection::kReadWrite}).value();
  ASSERT_TRUE(mapping.populate_write(0, kPageBytes));
  EXPECT_TRUE(is_resident(mapping.data()));
  EXPECT_TRUE(mapping.populate_read(0, kPageBytes));
  EXPECT_FALSE(mapping.populate_write(0, 2 * kPageBytes).has_value());
}

TEST(Mapping, HugePageAdviceIsTakenOrRefusedAsUnsupported) {
  Mapping mapping = Mapping::anonymous({.bytes = kHugePageBytes}).value();
  const Result<void> advised = mapping.prefer_huge_pages(0, kHugePageBytes);
  EXPECT_TRUE(advised || advised.error() == ErrorCode::kUnsupported);
}

TEST(Mapping, TheSystemSaysHowManyThereMayBe) { EXPECT_GE(max_mappings(), 1000u); }

TEST(Mapping, SpansOutsideAreABug) {
  const Mapping mapping = Mapping::anonymous({.bytes = kPageBytes}).value();
  EXPECT_EQ(mapping.bytes(4000, 96).size(), 96u);
  EXPECT_DEATH((void)mapping.bytes(4000, 97), "inside the mapping");
}

TEST(Mapping, MovesPagesOutAndLeavesAHole) {
  const Memfd file = Memfd::create({.size = 2 * kPageBytes}).value();
  Mapping arena = Mapping::reserve({.bytes = 8 * kPageBytes}).value();
  ASSERT_TRUE(arena.remap_file(4 * kPageBytes, file.fd(),
                               {.bytes = 2 * kPageBytes, .protection = Protection::kReadWrite}));
  arena.data()[4 * kPageBytes] = std::byte{42};
  Mapping room = Mapping::reserve({.bytes = 2 * kPageBytes}).value();
  const std::byte* place = room.data();
  const Mapping moved = arena.move_out(4 * kPageBytes, 2 * kPageBytes, std::move(room)).value();
  EXPECT_EQ(moved.data(), place);
  EXPECT_EQ(moved.data()[0], std::byte{42});
  EXPECT_DEATH(arena.data()[4 * kPageBytes] = std::byte{1}, "");
  ASSERT_TRUE(arena.reserve_hole(4 * kPageBytes, 2 * kPageBytes));
  EXPECT_DEATH(arena.data()[4 * kPageBytes] = std::byte{1}, "");
  EXPECT_EQ(arena.move_out(0, 2 * kPageBytes, Mapping::reserve({.bytes = kPageBytes}).value()).error(),
            ErrorCode::kInvalidArgument);
}

TEST(Mapping, ReservesNoHoleThatSomebodyElseHasFilled) {
  const Memfd file = Memfd::create({.size = 2 * kPageBytes}).value();
  Mapping arena = Mapping::reserve({.bytes = 8 * kPageBytes}).value();
  const FileMappingOptions whole{.bytes = 2 * kPageBytes, .protection = Protection::kReadWrite};
  ASSERT_TRUE(arena.remap_file(4 * kPageBytes, file.fd(), whole));
  Mapping room = Mapping::reserve({.bytes = 2 * kPageBytes}).value();
  const Mapping moved = arena.move_out(4 * kPageBytes, 2 * kPageBytes, std::move(room)).value();
  ASSERT_TRUE(arena.remap_file(4 * kPageBytes, file.fd(), whole));
  arena.data()[4 * kPageBytes] = std::byte{7};
  EXPECT_EQ(arena.reserve_hole(4 * kPageBytes, 2 * kPageBytes).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(arena.data()[4 * kPageBytes], std::byte{7});
}

}  // namespace
}  // namespace yonder::os
