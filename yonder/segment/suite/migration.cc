// Migrations between real processes, with every byte checked. Runs on each provider that
// *_test.cc names.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "yonder/fabric/open/open.h"
#include "yonder/os/steady_clock.h"
#include "yonder/rpc/server.h"
#include "yonder/segment/local_directory.h"
#include "yonder/segment/remote_directory.h"
#include "yonder/segment/suite/actor.h"
#include "yonder/segment/suite/suite.h"

namespace yonder::segment::suite {

namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t kMiB = 1 << 20;

}  // namespace

void Migrations::open(int actors, ActorOptions options, Duration lease) {
  // A process that has used an RDMA device cannot fork any more: what its children connect to
  // breaks at once, in whichever test comes second (tests/vm/one_by_one.sh).
  static bool opened = false;
  ASSERT_FALSE(std::exchange(opened, true) && GetParam().starts_with("verbs")) << "one test per process";
  options.provider = GetParam();
  for (int i = 0; i < actors; ++i) actors_.push_back(std::make_unique<Actor>(options));
  fabric_ = fabric::open(GetParam()).value();
  directory_ = std::make_unique<LocalDirectory>(clock_, LocalDirectoryOptions{.slots = 64, .lease = lease});
  server_ = rpc::Server::create(*fabric_, {.address = GetParam()}).value();
  serve_directory(*server_, *directory_);
  server_->start().value();
  for (const auto& actor : actors_) {
    const Result<void> started = actor->start(server_->address());
    ASSERT_TRUE(started) << started.error() << actor->errors();
  }
}

void Migrations::TearDown() {
  // A sanitizer's report of an actor goes to its own stderr.
  for (const auto& actor : actors_)
    EXPECT_EQ(actor->end().find("Sanitizer"), std::string::npos) << actor->end();
  actors_.clear();
  if (directory_ != nullptr) {
    EXPECT_TRUE(directory_->check_invariants());
  }
  server_.reset();
  directory_.reset();
  fabric_.reset();
}

std::uint64_t Migrations::offer(std::uint64_t bytes, std::uint64_t seed, std::uint64_t early) {
  const std::uint64_t id = actor(0).ask({.what = What::kAllocate, .a = bytes, .b = seed}).value();
  actor(0).ask({.what = What::kConnect, .a = id, .b = actor(1).id().value(), .c = early}).value();
  return id;
}

TEST_P(Migrations, MoveEveryByteByTouchesAlone) {
  open(2, {.prefetch = false});
  const std::uint64_t id = offer(4 * kMiB, 7);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  EXPECT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  EXPECT_EQ(record(id).owner, actor(1).id());
  EXPECT_EQ(actor(1).ask({.what = What::kCheck, .a = id, .b = 7}).value(), 0u);
  EXPECT_EQ(actor(1).ask({.what = What::kMissing, .a = id}).value(), 0u);
  // The source's memory is free once all has arrived.
  EXPECT_TRUE(eventually([&] { return actor(0).ask({.what = What::kLeft}).value() == 0; }));
  EXPECT_TRUE(eventually([&] { return actor(0).ask({.what = What::kResident}).value() == 0; }));
}

TEST_P(Migrations, MoveEveryByteWhileTouchesAndPrefetchRace) {
  open(2);
  for (std::uint64_t round = 0; round < 4; ++round) {
    const std::uint64_t id = offer(8 * kMiB, round);
    ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
    ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
    EXPECT_EQ(actor(1).ask({.what = What::kCheckByMany, .a = id, .b = round}).value(), 0u);
    ASSERT_TRUE(actor(1).ask({.what = What::kClose, .a = id}));
    ASSERT_TRUE(actor(1).ask({.what = What::kDeallocate, .a = id}));
  }
}

TEST_P(Migrations, LetTouchesGoBeforeThePrefetcher) {
  if (!GetParam().starts_with("tcp")) GTEST_SKIP() << "on shm bytes cost next to nothing; verbs is slow here";
  open(2);
  const std::uint64_t bytes = 128 * kMiB;
  const std::uint64_t id = offer(bytes, 3);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  // A prefetcher that took no notice would have all of it in half the time; touches bring an
  // eighth, and a little comes before the first one.
  ASSERT_TRUE(actor(1).ask({.what = What::kTouchNowAndThen, .a = id, .b = 300}));
  EXPECT_GT(actor(1).ask({.what = What::kMissing, .a = id}).value(), bytes / 2);
  // Then it goes on.
  EXPECT_TRUE(eventually([&] { return actor(1).ask({.what = What::kMissing, .a = id}).value() == 0; }));
}

TEST_P(Migrations, KeepWhatTheTargetStoresWhileTheRestArrives) {
  open(2);
  const std::uint64_t id = offer(8 * kMiB, 1);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  // Stores touch all pages while the prefetcher reads the old ones.
  ASSERT_TRUE(actor(1).ask({.what = What::kFill, .a = id, .b = 2}));
  ASSERT_TRUE(actor(1).ask({.what = What::kClose, .a = id}));
  EXPECT_EQ(actor(1).ask({.what = What::kCheck, .a = id, .b = 2}).value(), 0u);
}

TEST_P(Migrations, GoBackAndForth) {
  open(2);
  std::uint64_t id = offer(2 * kMiB, 5);
  const std::uint64_t address = actor(0).ask({.what = What::kAddress, .a = id}).value();
  for (std::size_t from = 0; from < 4; ++from) {
    Actor& source = actor(from % 2);
    Actor& target = actor((from + 1) % 2);
    if (from > 0) {
      ASSERT_TRUE(source.ask({.what = What::kConnect, .a = id, .b = target.id().value()})) << from;
    }
    ASSERT_TRUE(source.ask({.what = What::kTransfer, .a = id}));
    ASSERT_EQ(target.ask({.what = What::kReceive, .a = 10'000}).value(), id);
    EXPECT_EQ(target.ask({.what = What::kAddress, .a = id}).value(), address);
    EXPECT_EQ(target.ask({.what = What::kCheck, .a = id, .b = 5}).value(), 0u);
    ASSERT_TRUE(target.ask({.what = What::kClose, .a = id}));
    EXPECT_TRUE(eventually([&] { return source.ask({.what = What::kLeft}).value() == 0; }));
  }
  EXPECT_EQ(record(id).epoch, Epoch(5));
}

// The target asks the directory when it hears nothing, and may be done before the source knows.
TEST_P(Migrations, EndAlthoughTheSourceIsTheLastToKnow) {
  open(2, {.commit_delay_ms = 500});
  const std::uint64_t id = offer(kMiB, 5);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  EXPECT_EQ(actor(1).ask({.what = What::kCheck, .a = id, .b = 5}).value(), 0u);
  EXPECT_TRUE(eventually([&] { return actor(0).ask({.what = What::kLeft}).value() == 0; }));
}

TEST_P(Migrations, SeeTheLastStoreOfTheSource) {
  open(2);
  const std::uint64_t id = offer(kMiB, 1);
  const std::uint64_t last = actor(0).ask({.what = What::kTransferSlowly, .a = id}).value();
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  EXPECT_EQ(actor(1).ask({.what = What::kReadWord, .a = id, .b = 0}).value(), last);
}

TEST_P(Migrations, StayWhereTheyAreIfTheSourceCannotEndItsUse) {
  open(2);
  const std::uint64_t id = offer(kMiB, 1);
  EXPECT_EQ(actor(0).ask({.what = What::kTransferUnready, .a = id}).error(), ErrorCode::kCancelled);
  EXPECT_EQ(record(id).owner, actor(0).id());
  EXPECT_EQ(actor(0).ask({.what = What::kCheck, .a = id, .b = 1}).value(), 0u);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  EXPECT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
}

TEST_P(Migrations, BringHolesAsZerosAndAllocateNothingForThem) {
  open(2);
  const std::uint64_t id = actor(0).ask({.what = What::kAllocateSparse, .a = 64 * kMiB, .b = 3}).value();
  ASSERT_TRUE(actor(0).ask({.what = What::kConnect, .a = id, .b = actor(1).id().value()}));
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  ASSERT_TRUE(eventually([&] { return actor(1).ask({.what = What::kMissing, .a = id}).value() == 0; }));
  if (leaves_holes()) {
    EXPECT_LT(actor(1).ask({.what = What::kResident}).value(), 32 * kMiB);
  }
  EXPECT_EQ(actor(1).ask({.what = What::kCheckSparse, .a = id, .b = 3}).value(), 0u);
}

TEST_P(Migrations, PullWhatTheApplicationAsksFor) {
  open(2, {.prefetch = false, .pull_on_touch = false});
  const std::uint64_t id = offer(kMiB, 9);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  EXPECT_EQ(actor(1).ask({.what = What::kPull, .a = id, .b = kMiB, .c = 1}).error(), ErrorCode::kOutOfBounds);
  ASSERT_TRUE(actor(1).ask({.what = What::kPull, .a = id, .b = 0, .c = kMiB / 2}));
  EXPECT_EQ(actor(1).ask({.what = What::kMissing, .a = id}).value(), kMiB / 2);
  ASSERT_TRUE(actor(1).ask({.what = What::kClose, .a = id}));
  EXPECT_EQ(actor(1).ask({.what = What::kCheck, .a = id, .b = 9}).value(), 0u);
}

TEST_P(Migrations, ReleaseTheSourcesMemoryAsItArrives) {
  open(2, {.prefetch = false});
  const std::uint64_t id = offer(8 * kMiB, 4, 1);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  ASSERT_TRUE(actor(1).ask({.what = What::kPull, .a = id, .b = 0, .c = 6 * kMiB}));
  EXPECT_TRUE(eventually([&] { return actor(0).ask({.what = What::kResident}).value() <= 2 * kMiB; }));
  EXPECT_EQ(actor(1).ask({.what = What::kCheck, .a = id, .b = 4}).value(), 0u);
}

TEST_P(Migrations, AreDeclinedByATargetThatDoesNotWantThem) {
  open(2);
  actor(1).ask({.what = What::kDecline, .a = 1}).value();
  const std::uint64_t id = actor(0).ask({.what = What::kAllocate, .a = kMiB, .b = 1}).value();
  const Command connect{.what = What::kConnect, .a = id, .b = actor(1).id().value()};
  EXPECT_EQ(actor(0).ask(connect).error(), ErrorCode::kDeclined);
  EXPECT_EQ(record(id).state, SegmentState::kOwned);
  EXPECT_EQ(actor(0).ask({.what = What::kTransfer, .a = id}).error(), ErrorCode::kNotFound);
  EXPECT_EQ(actor(0).ask({.what = What::kCheck, .a = id, .b = 1}).value(), 0u);
  actor(1).ask({.what = What::kDecline, .a = 0}).value();
  EXPECT_TRUE(actor(0).ask(connect));
}

TEST_P(Migrations, CanBeCancelledBeforeTheTransfer) {
  open(2);
  const std::uint64_t id = offer(kMiB, 1);
  ASSERT_TRUE(actor(0).ask({.what = What::kCancel, .a = id}));
  EXPECT_EQ(record(id).state, SegmentState::kOwned);
  EXPECT_EQ(actor(0).ask({.what = What::kCheck, .a = id, .b = 1}).value(), 0u);
  // The target has forgotten it and can be asked again.
  EXPECT_TRUE(eventually([&] {
    return actor(0).ask({.what = What::kConnect, .a = id, .b = actor(1).id().value()}).has_value();
  }));
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  EXPECT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
}

TEST_P(Migrations, RefuseWhatIsNotTheirs) {
  open(2, {.prefetch = false});  // So that it is still leaving.
  const std::uint64_t id = offer(kMiB, 1);
  EXPECT_EQ(actor(0).ask({.what = What::kDeallocate, .a = id}).error(), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  for (const What what : {What::kTransfer, What::kConnect, What::kPull, What::kDeallocate, What::kClose}) {
    const Command command{.what = what, .a = id, .b = what == What::kConnect ? actor(1).id().value() : 0};
    EXPECT_EQ(actor(0).ask(command).error(), ErrorCode::kNotOwner);
  }
  EXPECT_EQ(actor(0).ask({.what = What::kTransfer, .a = 999}).error(), ErrorCode::kNotFound);
  EXPECT_EQ(actor(1).ask({.what = What::kConnect, .a = 999, .b = 1}).error(), ErrorCode::kNotFound);
}

TEST_P(Migrations, EndALateStoreOfTheSourceWithAClearMessage) {
  open(2);
  const std::uint64_t id = offer(kMiB, 1);
  const std::uint64_t address = actor(0).ask({.what = What::kAddress, .a = id}).value();
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  actor(0).tell({.what = What::kTouchFenced, .a = address + 8}).value();
  EXPECT_FALSE(actor(0).answer());
  EXPECT_FALSE(actor(0).wait().success());
  EXPECT_NE(actor(0).errors().find("segment " + std::to_string(id)), std::string::npos) << actor(0).errors();
}

// ---------------------------------------------------------------- deaths

TEST_P(Migrations, LeaveTheSegmentToNobodyWhenTheSourceDiesBeforeTheTransfer) {
  open(2, {}, 500ms);
  const std::uint64_t id = offer(kMiB, 1);
  actor(0).kill();
  EXPECT_TRUE(eventually([&] { return record(id).state == SegmentState::kLost; }));
  EXPECT_EQ(actor(1).ask({.what = What::kReceive, .a = 500}).error(), ErrorCode::kDeadlineExceeded);
}

TEST_P(Migrations, LeaveTheSegmentToItsSourceWhenTheTargetDiesBeforeTheTransfer) {
  open(2, {}, 500ms);
  const std::uint64_t id = offer(kMiB, 1);
  actor(1).kill();
  EXPECT_FALSE(actor(0).ask({.what = What::kTransfer, .a = id}));
  EXPECT_EQ(actor(0).ask({.what = What::kCheck, .a = id, .b = 1}).value(), 0u);
  ASSERT_TRUE(eventually([&] { return record(id).state == SegmentState::kOwned; }));
  EXPECT_EQ(record(id).owner, actor(0).id());
}

TEST_P(Migrations, TellWhatIsMissingWhenTheSourceDiesDuringThePull) {
  open(2, {.prefetch = false, .source_timeout_ms = 300});
  const std::uint64_t id = offer(4 * kMiB, 1);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  ASSERT_TRUE(actor(1).ask({.what = What::kPull, .a = id, .b = 0, .c = kMiB}));
  actor(0).kill();
  // Memory of a dead process can still be read over shared memory until its death is
  // noticed: a page at a time, until then.
  std::uint64_t pulled = kMiB;
  Result<std::uint64_t> pull = 0;
  while (pull && pulled < 4 * kMiB) {
    pull = actor(1).ask({.what = What::kPull, .a = id, .b = pulled, .c = 4096});
    if (pull) pulled += 4096;
    std::this_thread::sleep_for(5ms);
  }
  ASSERT_FALSE(pull);
  EXPECT_EQ(pull.error(), ErrorCode::kSegmentLost);
  EXPECT_EQ(actor(1).ask({.what = What::kMissing, .a = id}).value(), 4 * kMiB - pulled);
  // A touch is an error that can be caught, not the end.
  EXPECT_EQ(actor(1).ask({.what = What::kCheckAttempt, .a = id, .b = 1}).error(), ErrorCode::kSegmentLost);
  EXPECT_TRUE(actor(1).ask({.what = What::kDeallocate, .a = id}));
}

// Actor 0 is the source, 1 the target, 2 keeps a copy.
std::uint64_t Migrations::offer_kept(std::uint64_t bytes, std::uint64_t seed) {
  const std::uint64_t id = actor(0).ask({.what = What::kAllocate, .a = bytes, .b = seed}).value();
  actor(0)
      .ask({.what = What::kConnectKept, .a = id, .b = actor(1).id().value(), .c = actor(2).id().value()})
      .value();
  return id;
}

void Migrations::lose_the_source_of_a_kept_segment() {
  const std::uint64_t id = offer_kept(8 * kMiB, 6);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  actor(0).kill();
  // Slowly at first, so that the rest comes when the death is known (on shm the memory of a
  // dead process can be read for a while).
  for (std::uint64_t page = 0; page < 100; ++page) {
    ASSERT_TRUE(actor(1).ask({.what = What::kPull, .a = id, .b = page * 4096, .c = 4096}));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(actor(1).ask({.what = What::kCheckByMany, .a = id, .b = 6}).value(), 0u);
  ASSERT_TRUE(actor(1).ask({.what = What::kClose, .a = id}));
  EXPECT_EQ(actor(1).ask({.what = What::kMissing, .a = id}).value(), 0u);
  // The copy is not needed any more.
  EXPECT_TRUE(eventually([&] { return actor(2).ask({.what = What::kResident}).value() == 0; }));
}

TEST_P(Migrations, LoseNothingWithTheSourceIfAThirdKeepsACopy) {
  open(3, {.prefetch = false, .source_timeout_ms = 500});
  lose_the_source_of_a_kept_segment();
}

TEST_P(Migrations, LoseNothingWithTheSourceIfAThirdKeepsACopyThatIsPrefetched) {
  open(3, {.prefetch = true, .source_timeout_ms = 500});
  lose_the_source_of_a_kept_segment();
}

TEST_P(Migrations, PullHolesFromNobodyAlthoughTheSourceDied) {
  open(3, {.source_timeout_ms = 500});
  const std::uint64_t id = actor(0).ask({.what = What::kAllocateSparse, .a = 64 * kMiB, .b = 3}).value();
  ASSERT_TRUE(actor(0).ask(
      {.what = What::kConnectKept, .a = id, .b = actor(1).id().value(), .c = actor(2).id().value()}));
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  actor(0).kill();
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  EXPECT_EQ(actor(1).ask({.what = What::kCheckSparse, .a = id, .b = 3}).value(), 0u);
  if (leaves_holes()) {
    EXPECT_LT(actor(2).ask({.what = What::kResident}).value(), 32 * kMiB);
  }
}

TEST_P(Migrations, StayWithTheSourceIfTheKeeperDies) {
  open(3, {}, 500ms);
  const std::uint64_t id = offer_kept(kMiB, 2);
  actor(2).kill();
  EXPECT_FALSE(actor(0).ask({.what = What::kTransfer, .a = id}));
  EXPECT_EQ(record(id).owner, actor(0).id());
  ASSERT_TRUE(actor(0).ask({.what = What::kCancel, .a = id}));
  EXPECT_EQ(record(id).state, SegmentState::kOwned);
  EXPECT_EQ(actor(0).ask({.what = What::kCheck, .a = id, .b = 2}).value(), 0u);
  // And can go without one.
  EXPECT_TRUE(eventually([&] {
    return actor(0).ask({.what = What::kConnect, .a = id, .b = actor(1).id().value()}).has_value();
  }));
  EXPECT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
}

TEST_P(Migrations, NeedNoKeeperWhileTheSourceLives) {
  open(3, {.prefetch = false}, 500ms);
  const std::uint64_t id = offer_kept(4 * kMiB, 2);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  actor(2).kill();
  EXPECT_EQ(actor(1).ask({.what = What::kCheck, .a = id, .b = 2}).value(), 0u);
  EXPECT_TRUE(eventually([&] { return actor(0).ask({.what = What::kLeft}).value() == 0; }));
}

TEST_P(Migrations, LeaveNoCopyBehindWhenTheyEndEarly) {
  open(3, {.prefetch = false}, 500ms);
  const auto kept_bytes = [&] { return actor(2).ask({.what = What::kResident}).value(); };
  const std::uint64_t cancelled = offer_kept(kMiB, 1);
  ASSERT_TRUE(actor(0).ask({.what = What::kCancel, .a = cancelled}));
  const std::uint64_t id = offer_kept(kMiB, 2);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  EXPECT_GE(kept_bytes(), kMiB);
  actor(1).kill();
  EXPECT_TRUE(eventually([&] { return kept_bytes() == 0; }));
}

TEST_P(Migrations, AreKeptByAThirdOnly) {
  open(2);
  const std::uint64_t id = actor(0).ask({.what = What::kAllocate, .a = kMiB, .b = 1}).value();
  for (const std::size_t keeper : {0, 1}) {
    const Command connect{
        .what = What::kConnectKept, .a = id, .b = actor(1).id().value(), .c = actor(keeper).id().value()};
    EXPECT_EQ(actor(0).ask(connect).error(), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(record(id).state, SegmentState::kOwned);
}

TEST_P(Migrations, EndATouchOfALostPageWithAClearMessage) {
  open(2, {.prefetch = false, .source_timeout_ms = 300});
  const std::uint64_t id = offer(16 * kMiB, 1);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  actor(0).kill();
  // Far from each other, so that each touch is a pull; until the death is noticed.
  bool lived = true;
  for (std::uint64_t offset = 0; lived && offset < 16 * kMiB; offset += 64 << 10) {
    lived = actor(1).ask({.what = What::kReadWord, .a = id, .b = offset}).has_value();
    std::this_thread::sleep_for(5ms);
  }
  ASSERT_FALSE(lived);
  EXPECT_FALSE(actor(1).wait().success());
  EXPECT_NE(actor(1).errors().find("did not arrive"), std::string::npos) << actor(1).errors();
}

TEST_P(Migrations, FreeTheSourcesMemoryWhenTheTargetDiesDuringThePull) {
  open(2, {.prefetch = false}, 500ms);
  const std::uint64_t id = offer(kMiB, 1);
  ASSERT_TRUE(actor(0).ask({.what = What::kTransfer, .a = id}));
  ASSERT_EQ(actor(1).ask({.what = What::kReceive, .a = 10'000}).value(), id);
  actor(1).kill();
  EXPECT_TRUE(eventually([&] { return record(id).state == SegmentState::kLost; }));
  EXPECT_TRUE(eventually([&] { return actor(0).ask({.what = What::kLeft}).value() == 0; }));
}

}  // namespace yonder::segment::suite
