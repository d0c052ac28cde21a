#include "yonder/node/internal/owner_desks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

namespace yonder::node::internal {
namespace {

// Blocks of even numbers belong to the first desk, where threads 0 and 2 sit, those of
// odd numbers to the second, where 1 and 3 do.
constexpr OwnerDesks::Options kTwoDesks{.desks = 2, .threads = 4};
constexpr BlockId kEven(10);
constexpr BlockId kOdd(11);
constexpr ObjectId kObject(7);
constexpr ObjectId kOther(8);

TEST(OwnerDesks, KnowsWhatItWasToldLast) {
  OwnerDesks desks(kTwoDesks);
  desks.arrive(0);
  EXPECT_EQ(desks.find(0, kEven, kObject), std::nullopt);
  desks.put(kEven, kObject, 3);
  desks.put(kEven, kOther, 4);
  EXPECT_EQ(desks.find(0, kEven, kObject), 3u);
  desks.put(kEven, kObject, 5);
  EXPECT_EQ(desks.find(0, kEven, kObject), 5u);
  desks.erase(kEven, kObject);
  EXPECT_EQ(desks.find(0, kEven, kObject), std::nullopt);
  EXPECT_EQ(desks.find(0, kEven, kOther), 4u) << "another object of the block";
  EXPECT_EQ(desks.find(0, kOdd, kOther), std::nullopt) << "the same id of another block";
}

TEST(OwnerDesks, TheAskerAnswersForAnOwnerThatWasNeverThere) {
  OwnerDesks desks(kTwoDesks);
  desks.arrive(0);
  desks.put(kOdd, kObject, 3);
  EXPECT_EQ(desks.find(0, kOdd, kObject), 3u);
  EXPECT_EQ(desks.answers().by_asker, 1u);
}

TEST(OwnerDesks, TheAskerAnswersForAnOwnerThatHasLeft) {
  OwnerDesks desks(kTwoDesks);
  desks.arrive(0);
  desks.arrive(1);
  desks.put(kOdd, kObject, 3);
  desks.serve(1);
  desks.leave(1);
  EXPECT_EQ(desks.find(0, kOdd, kObject), 3u);
  EXPECT_EQ(desks.answers().by_asker, 1u);
}

TEST(OwnerDesks, TheAskerAnswersForAnOwnerThatSleeps) {
  OwnerDesks desks(kTwoDesks);
  desks.arrive(0);
  desks.arrive(1);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    desks.put(kOdd, kObject, i);
    EXPECT_EQ(desks.find(0, kOdd, kObject), i);
    EXPECT_EQ(desks.answers().by_asker, i);
  }
  EXPECT_EQ(desks.answers().by_others, 0u);
}

TEST(OwnerDesks, TheOwnerAnswersWhileItServes) {
  OwnerDesks desks({.desks = 2, .threads = 2, .courtesy = UINT32_MAX, .patience = UINT32_MAX});
  desks.arrive(0);
  desks.arrive(1);
  desks.put(kOdd, kObject, 3);
  std::atomic<bool> ends{false};
  std::thread owner([&] {
    while (!ends.load()) desks.serve(1);
  });
  EXPECT_EQ(desks.find(0, kOdd, kObject), 3u);
  EXPECT_EQ(desks.find(0, kOdd, kOther), std::nullopt);
  ends.store(true);
  owner.join();
  EXPECT_EQ(desks.answers().by_others, 2u);
}

// Each waits for the other's answer, and gives its own meanwhile.
TEST(OwnerDesks, TwoOwnersThatAskEachOtherAnswerEachOther) {
  OwnerDesks desks({.desks = 2, .threads = 2, .courtesy = UINT32_MAX, .patience = UINT32_MAX});
  desks.arrive(0);
  desks.arrive(1);
  desks.put(kEven, kObject, 3);
  desks.put(kOdd, kObject, 4);
  std::atomic<int> asking{2};
  const auto ask = [&](std::uint32_t asker, BlockId home, std::uint32_t slot) {
    EXPECT_EQ(desks.find(asker, home, kObject), slot);
    asking.fetch_sub(1);
    while (asking.load() != 0) desks.serve(asker);
  };
  std::thread other([&] { ask(1, kEven, 3); });
  ask(0, kOdd, 4);
  other.join();
  EXPECT_EQ(desks.answers().by_others, 2u);
}

TEST(OwnerDesks, AFullMailIsReadByWhoeverHasNews) {
  OwnerDesks desks(kTwoDesks);
  constexpr std::uint16_t kObjects = 5 * OwnerDesks::kMailbox;
  for (std::uint16_t i = 1; i <= kObjects; ++i) desks.put(kEven, ObjectId(i), i);
  for (std::uint16_t i = 2; i <= kObjects; i += 2) desks.erase(kEven, ObjectId(i));
  std::map<std::uint16_t, std::uint32_t> known;
  desks.visit([&](BlockId home, ObjectId id, std::uint32_t slot) {
    EXPECT_EQ(home, kEven);
    known[id.value()] = slot;
  });
  EXPECT_EQ(known.size(), kObjects / 2u);
  for (const auto& [id, slot] : known) {
    EXPECT_EQ(id, slot);
    EXPECT_EQ(id % 2, 1);
  }
}

TEST(OwnerDesks, AQuestionFindsRoomInAFullMail) {
  OwnerDesks desks(kTwoDesks);
  for (std::uint16_t i = 1; i <= OwnerDesks::kMailbox; ++i) desks.put(kEven, ObjectId(i), i);
  EXPECT_EQ(desks.find(1, kEven, ObjectId(OwnerDesks::kMailbox)), OwnerDesks::kMailbox);
}

// Who has the turn does not get on, as a thread that lost its processor.
TEST(OwnerDesks, WhoIsNotAnsweredDoesWithout) {
  OwnerDesks desks(kTwoDesks);
  desks.arrive(0);
  desks.put(kEven, kObject, 3);
  int visits = 0;
  desks.visit([&](BlockId, ObjectId, std::uint32_t) {
    ++visits;
    EXPECT_EQ(desks.find(1, kEven, kObject), std::nullopt);
  });
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(desks.answers().unanswered, 1u);
}

TEST(OwnerDesks, ALateAnswerIsNobodys) {
  OwnerDesks desks(kTwoDesks);
  desks.put(kEven, kObject, 3);
  desks.visit([&](BlockId, ObjectId, std::uint32_t) { (void)desks.find(1, kEven, kObject); });
  ASSERT_EQ(desks.answers().unanswered, 1u);
  // The first question is still in the mail, and is answered first.
  desks.put(kEven, kOther, 4);
  EXPECT_EQ(desks.find(1, kEven, kOther), 4u);
  EXPECT_EQ(desks.find(1, kEven, ObjectId(99)), std::nullopt);
}

}  // namespace
}  // namespace yonder::node::internal
