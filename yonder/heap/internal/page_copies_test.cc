#include "yonder/heap/internal/page_copies.h"

#include <gtest/gtest.h>

#include <cstring>

namespace yonder::heap::internal {
namespace {

constexpr std::uint32_t kPage = 7;

PageEntry absent(std::uint32_t slot) { return PageEntry{}.arrived(0).gone(slot); }

void keep_copy(PageCopies& copies, std::uint32_t page, PageEntry entry, std::uint64_t barriers) {
  std::memset(copies.next_room(), static_cast<int>(page), kPageBytes);
  copies.keep(page, entry, barriers);
}

TEST(PageCopies, FindsWhatItKeeps) {
  PageCopies copies;
  EXPECT_EQ(copies.find(kPage, absent(3), 0), nullptr);
  keep_copy(copies, kPage, absent(3), 10);
  const std::byte* found = copies.find(kPage, absent(3), 10);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found[kPageBytes - 1], std::byte{kPage});
  EXPECT_EQ(copies.find(kPage + 1, absent(3), 10), nullptr);
}

TEST(PageCopies, ForgetsAPageThatHasBeenElsewhere) {
  PageCopies copies;
  keep_copy(copies, kPage, absent(3), 10);
  EXPECT_EQ(copies.find(kPage, absent(4), 10), nullptr);
  EXPECT_EQ(copies.find(kPage, absent(3).on_path(true), 10), nullptr);
  // In again and out to the same slot: a new stay.
  const PageEntry back = absent(3).arrived(1).gone(3);
  EXPECT_EQ(copies.find(kPage, back, 10), nullptr);
}

// After 255 stays the stamp is the same again; that takes as many barriers.
TEST(PageCopies, DoesNotMistakeALaterStayForAnEarlierOne) {
  PageCopies copies;
  keep_copy(copies, kPage, absent(3), 10);
  PageEntry entry = absent(3);
  std::uint64_t barriers = 10;
  bool same_again = false;
  for (int stay = 0; stay < 600; ++stay) {
    entry = entry.arrived(1).gone(3);
    ++barriers;
    same_again |= entry == absent(3);
    EXPECT_EQ(copies.find(kPage, entry, barriers), nullptr) << stay;
  }
  EXPECT_TRUE(same_again);
}

int trials_in(PageCopies& copies, std::uint32_t misses) {
  int trials = 0;
  for (std::uint32_t page = 1000; page < 1000 + misses; ++page) trials += copies.is_worth_it(page) ? 1 : 0;
  return trials;
}

TEST(PageCopies, ReadsPagesWhereTheyServe) {
  PageCopies copies;
  EXPECT_EQ(trials_in(copies, 160), 10) << "one in sixteen is a trial";
  EXPECT_TRUE(copies.is_worth_it(1159)) << "the second miss in a page";
  for (std::uint32_t page = 2; page < 102; ++page) {
    keep_copy(copies, page, absent(page), 0);
    EXPECT_NE(copies.find(page, absent(page), 0), nullptr);
  }
  EXPECT_EQ(trials_in(copies, 20), 20);
  // And no longer where they do not; trials in vain become rare.
  for (std::uint32_t page = 2; page < 202; ++page) keep_copy(copies, page, absent(page), 0);
  EXPECT_EQ(trials_in(copies, 2560), 10);
}

}  // namespace
}  // namespace yonder::heap::internal
