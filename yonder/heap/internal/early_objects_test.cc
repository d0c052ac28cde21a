#include "yonder/heap/internal/early_objects.h"

#include <gtest/gtest.h>

#include <cstring>

namespace yonder::heap::internal {
namespace {

constexpr std::uint32_t kPage = 7;
constexpr std::uint32_t kSlot = 2;

PageEntry absent_in(std::uint32_t slot) { return PageEntry{}.arrived(1).gone(slot).on_path(false); }

PointerWord object_at(std::uint32_t granule) { return PointerWord::make(kPage, granule, 64); }

// A store whose bytes say where they are.
class EarlyObjectsTest : public ::testing::Test {
 protected:
  EarlyObjectsTest() : store_(SlotStore::open({.bytes = Bytes(1 << 20)}).value()) {
    std::vector<std::byte> page(kPageBytes);
    for (std::size_t i = 0; i < page.size(); ++i) page[i] = static_cast<std::byte>(i / kGranuleBytes);
    const Transfer write{.local = page.data(), .bytes = kPageBytes, .offset = kSlot * kPageBytes};
    EXPECT_TRUE(store_->write_many({&write, 1}));
  }
  ~EarlyObjectsTest() override { objects_.settle(*store_); }

  bool ask(PointerWord word, std::uint64_t barriers = 10) {
    EarlyObject* const early = objects_.expect(word, {absent_in(kSlot), barriers});
    if (early == nullptr) return false;
    AsyncRead* reads[] = {early};
    EXPECT_EQ(store_->start(reads), 1u);
    return true;
  }

  std::unique_ptr<SlotStore> store_;
  EarlyObjects objects_;
};

TEST_F(EarlyObjectsTest, GivesTheBytesOfTheObjectOnce) {
  EXPECT_EQ(objects_.find(object_at(3), {absent_in(kSlot), 10}), nullptr);
  ASSERT_TRUE(ask(object_at(3)));
  EXPECT_FALSE(ask(object_at(3))) << "it is on its way";
  EarlyObject* const found = objects_.find(object_at(3), {absent_in(kSlot), 10});
  ASSERT_NE(found, nullptr);
  while (found->is_coming()) store_->poll();
  ASSERT_TRUE(found->is_here());
  EXPECT_EQ(found->bytes()[0], std::byte{3});
  found->forget();
  EXPECT_EQ(objects_.find(object_at(3), {absent_in(kSlot), 10}), nullptr);
}

TEST_F(EarlyObjectsTest, DoesNotTakeAnotherStayForItsOwn) {
  ASSERT_TRUE(ask(object_at(3)));
  EXPECT_EQ(objects_.find(object_at(4), {absent_in(kSlot), 10}), nullptr) << "another object";
  EXPECT_EQ(objects_.find(object_at(3), {absent_in(kSlot + 1), 10}), nullptr) << "another slot";
  EXPECT_EQ(objects_.find(object_at(3), {absent_in(kSlot).arrived(1).gone(kSlot), 10}), nullptr)
      << "a later stay";
  EXPECT_NE(objects_.find(object_at(3), {absent_in(kSlot), 10 + 254}), nullptr);
  EXPECT_EQ(objects_.find(object_at(3), {absent_in(kSlot), 10 + 255}), nullptr)
      << "the stamps have been around";
}

TEST_F(EarlyObjectsTest, ForgetsTheOldestWhenThereAreTooMany) {
  // Of a page 64 objects have places; half of them stay.
  for (std::uint32_t i = 0; i < 2 * EarlyObjects::kObjects; ++i) {
    EXPECT_TRUE(ask(object_at(i * 4)));
    objects_.settle(*store_);
  }
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < 2 * EarlyObjects::kObjects; ++i)
    kept += objects_.find(object_at(i * 4), {absent_in(kSlot), 10}) != nullptr ? 1 : 0;
  EXPECT_LE(kept, EarlyObjects::kObjects);
  EXPECT_GT(kept, EarlyObjects::kObjects / 2);
  EXPECT_NE(objects_.find(object_at(4 * (2 * EarlyObjects::kObjects - 1)), {absent_in(kSlot), 10}), nullptr)
      << "the newest";
}

TEST_F(EarlyObjectsTest, GivesNoPlaceAwayThatIsStillToBeWritten) {
  std::size_t places = 0;
  // None of the reads begins, so that each place is coming for ever.
  for (std::uint32_t i = 0; i < 64; ++i)
    places += objects_.expect(object_at(i * 4), {absent_in(kSlot), 10}) != nullptr ? 1 : 0;
  EXPECT_LE(places, EarlyObjects::kObjects);
  for (std::uint32_t i = 0; i < 64; ++i)
    if (EarlyObject* early = objects_.find(object_at(i * 4), {absent_in(kSlot), 10})) early->forget();
}

}  // namespace
}  // namespace yonder::heap::internal
