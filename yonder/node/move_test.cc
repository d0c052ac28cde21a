// One move, stopped at each of its stages: what readers and writers can do meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "yonder/node/heap.h"
#include "yonder/os/steady_clock.h"
#include "yonder/sync/mutex.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

const os::SteadyClock kClock;
constexpr Duration kPatience = std::chrono::seconds(60);
constexpr std::uint32_t kBytes = 200;

// Stops the compactor at a stage of the next move until it is let go.
class Turnstile {
 public:
  struct Moving {
    BlockId home;
    ObjectId id;
  };

  // The compactor's side: nothing moves before the test has said where to stop.
  void await_plan() {
    sync::LockGuard lock(mutex_);
    const Deadline deadline = Deadline::after(kClock, kPatience);
    while (!stop_at_ && !is_open_ && changed_.wait(lock, deadline)) {
    }
  }
  void pass(MoveStage stage, BlockId home, ObjectId id) {
    sync::LockGuard lock(mutex_);
    if (stage != stop_at_) return;
    stopped_ = Moving{home, id};
    changed_.notify_all();
    const Deadline deadline = Deadline::after(kClock, kPatience);
    while (stopped_ && changed_.wait(lock, deadline)) {
    }
  }
  // The test's side: the next stop; lets the compactor go from the last one.
  Moving stop_at(MoveStage stage) {
    sync::LockGuard lock(mutex_);
    stop_at_ = stage;
    stopped_.reset();
    changed_.notify_all();
    const Deadline deadline = Deadline::after(kClock, kPatience);
    while (!stopped_ && changed_.wait(lock, deadline)) {
    }
    EXPECT_TRUE(stopped_) << "no move came to this stage";
    return stopped_.value_or(Moving{});
  }
  void open() {
    sync::LockGuard lock(mutex_);
    is_open_ = true;
    stop_at_.reset();
    stopped_.reset();
    changed_.notify_all();
  }

 private:
  sync::Mutex mutex_;
  sync::Condition changed_;
  bool is_open_ YONDER_GUARDED_BY(mutex_) = false;
  std::optional<MoveStage> stop_at_ YONDER_GUARDED_BY(mutex_);
  std::optional<Moving> stopped_ YONDER_GUARDED_BY(mutex_);
};

std::vector<std::byte> value(std::uint8_t seed) { return std::vector<std::byte>(kBytes, std::byte{seed}); }

class MoveTest : public ::testing::TestWithParam<std::tuple<Validator, Remap>> {
 protected:
  void SetUp() override {
    const HeapOptions options{.classes = {.validator = std::get<Validator>(GetParam())},
                              .remap = std::get<Remap>(GetParam()),
                              .longest_wait = std::chrono::milliseconds(20),
                              .seed = ::yonder::testing::test_seed() | 1,
                              .compaction = {.on_move = [this](MoveStage stage, BlockId home, ObjectId id) {
                                turnstile_.pass(stage, home, id);
                              }}};
    heap_ = Heap::create(kClock, options).value();
    thread_.emplace(heap_->register_thread().value());
    // Two in three are freed, so that frames merge.
    std::vector<ObjectPtr> all;
    for (int i = 0; i < 3000; ++i) all.push_back(thread_->alloc(kBytes).value());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % 3 != 0) {
        ASSERT_TRUE(thread_->free(all[i]));
      } else {
        ASSERT_TRUE(thread_->write(all[i], value(1)));
        objects_.push_back(all[i]);
      }
    }
    compactor_ = std::thread([this, size_class = objects_[0].size_class()] {
      turnstile_.await_plan();
      heap_->compactor().compact(size_class);
    });
  }
  void TearDown() override {
    turnstile_.open();
    compactor_.join();
    heap_->check_invariants();
    thread_.reset();
  }

  ObjectPtr& object(const Turnstile::Moving& moving) {
    const auto found = std::ranges::find_if(
        objects_, [&](ObjectPtr object) { return object.home() == moving.home && object.id() == moving.id; });
    YONDER_CHECK(found != objects_.end(), "only our objects move");
    return *found;
  }
  std::vector<std::byte> contents(ObjectPtr& of) {
    std::vector<std::byte> out(kBytes);
    const auto read = thread_->read(of, out);
    EXPECT_TRUE(read) << read.error();
    return out;
  }

  Turnstile turnstile_;
  std::unique_ptr<Heap> heap_;
  std::optional<HeapThread> thread_;
  std::vector<ObjectPtr> objects_;
  std::thread compactor_;
};
INSTANTIATE_TEST_SUITE_P(Validators, MoveTest,
                         ::testing::Combine(::testing::Values(Validator::kReread, Validator::kLines,
                                                              Validator::kChecksum),
                                            ::testing::Values(Remap::kTable, Remap::kMmap)));

TEST_P(MoveTest, ReadersGoOnAtEveryStage) {
  for (const MoveStage stage :
       {MoveStage::kLocked, MoveStage::kCopied, MoveStage::kLinked, MoveStage::kDone}) {
    ObjectPtr& moving = object(turnstile_.stop_at(stage));
    EXPECT_EQ(contents(moving), value(1)) << static_cast<int>(stage);
    EXPECT_TRUE(thread_->find(moving));
  }
}

// The compactor stands still, so a writer that waits for it can only give up.
TEST_P(MoveTest, WritersOfTheObjectWaitUntilItHasMoved) {
  for (const MoveStage stage : {MoveStage::kLocked, MoveStage::kCopied, MoveStage::kLinked}) {
    ObjectPtr& moving = object(turnstile_.stop_at(stage));
    EXPECT_EQ(thread_->write(moving, value(2)).error(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(thread_->free(moving).error(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(contents(moving), value(1)) << "nothing was written";
  }
  ObjectPtr& moved = object(turnstile_.stop_at(MoveStage::kDone));
  EXPECT_TRUE(thread_->write(moved, value(2)));
  EXPECT_EQ(contents(moved), value(2));
}

// While one object of a block is held, all others can be written: those of the block
// that have moved, those that have not, and those of other blocks.
TEST_P(MoveTest, WritersOfAllOtherObjectsDoNotWait) {
  const Turnstile::Moving first = turnstile_.stop_at(MoveStage::kDone);
  const Turnstile::Moving held = turnstile_.stop_at(MoveStage::kLocked);
  EXPECT_EQ(first.home, held.home) << "both are of the block that moves now";
  for (ObjectPtr& other : objects_) {
    if (other.home() == held.home && other.id() == held.id) continue;
    ASSERT_TRUE(thread_->write(other, value(3)));
    ASSERT_EQ(contents(other), value(3));
  }
  EXPECT_EQ(contents(object(held)), value(1));
}

// H3: what was acknowledged at the destination is never hidden by the old copy.
TEST_P(MoveTest, AnOldPointerReadsWhatWasWrittenAfterTheMove) {
  const Turnstile::Moving moving = turnstile_.stop_at(MoveStage::kDone);
  const ObjectPtr outdated = object(moving);
  ObjectPtr corrected = outdated;
  ASSERT_TRUE(thread_->write(corrected, value(4)));
  ObjectPtr again = outdated;
  EXPECT_EQ(contents(again), value(4)) << "its block's entry is not switched yet";
}

}  // namespace
}  // namespace yonder::node
