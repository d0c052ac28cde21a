#include "yonder/node/internal/shortage.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "yonder/os/steady_clock.h"
#include "yonder/testing/seed.h"

namespace yonder::node::internal {
namespace {

// The machine's clock, and more if a test wants time to pass.
class ShiftedClock final : public Clock {
 public:
  Instant now() const override { return machine_.now() + shift; }
  Duration shift{0};

 private:
  os::SteadyClock machine_;
};

// What became of a call.
struct Outcome {
  std::optional<ErrorCode> code;  // kOk: it has its object.
  ObjectPtr object;
  int attempts = 0;
  bool is_abandoned = false;
};

class FakeCall final : public WaitingCall {
 public:
  FakeCall(HeapThread& thread, std::uint32_t bytes, Outcome& outcome)
      : thread_(thread), bytes_(bytes), outcome_(outcome) {}
  bool try_answer() override {
    ++outcome_.attempts;
    const auto object = thread_.try_alloc(bytes_);
    if (!object) return false;
    outcome_.object = *object;
    outcome_.code = ErrorCode::kOk;
    return true;
  }
  void end(ErrorCode code) override {
    if (!try_answer()) outcome_.code = code;
  }
  bool is_abandoned() const override { return outcome_.is_abandoned; }

 private:
  HeapThread& thread_;
  const std::uint32_t bytes_;
  Outcome& outcome_;
};

class ShortageTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBytes = 500;

  void SetUp() override {
    heap_ =
        Heap::create(clock_, {.limit = Bytes(2 << 20), .seed = ::yonder::testing::test_seed() | 1}).value();
    thread_.emplace(heap_->register_thread().value());
    start({});
  }
  void TearDown() override {
    shortage_->close();
    shortage_.reset();
    heap_->check_invariants();
  }

  void start(Shortage::Options options) {
    if (shortage_ != nullptr) shortage_->close();
    shortage_.reset();
    shortage_ = std::make_unique<Shortage>(*heap_, clock_, std::move(options));
  }
  // Objects of one class until there is no room.
  void fill() {
    while (const auto object = thread_->try_alloc(kBytes)) objects_.push_back(*object);
    ASSERT_FALSE(objects_.empty());
  }
  // All but every fourth object go: room for others, after compaction.
  void thin_out() {
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      if (i % 4 == 0) continue;
      ASSERT_TRUE(thread_->free(objects_[i]));
    }
  }
  ErrorCode park(std::uint32_t bytes, Outcome& outcome, Deadline deadline = Deadline::never()) {
    std::unique_ptr<WaitingCall> call = std::make_unique<FakeCall>(*thread_, bytes, outcome);
    return shortage_->park(call, deadline);
  }
  // Steps until nothing waits. Thousands are far more than two mebibytes can need.
  void step_to_the_end() {
    for (int i = 0; i < 100'000 && shortage_->size() != 0; ++i) shortage_->step({});
    EXPECT_EQ(shortage_->size(), 0u);
  }

  ShiftedClock clock_;
  std::unique_ptr<Heap> heap_;
  std::optional<HeapThread> thread_;
  std::vector<ObjectPtr> objects_;
  std::unique_ptr<Shortage> shortage_;
};

TEST_F(ShortageTest, GivesMemoryThatCompactionWinsBack) {
  fill();
  thin_out();
  Outcome outcome;
  ASSERT_EQ(park(60'000, outcome), ErrorCode::kOk);
  step_to_the_end();
  EXPECT_EQ(outcome.code, ErrorCode::kOk);
  EXPECT_GT(heap_->compactor().counters().frames_freed, 0u);
}

TEST_F(ShortageTest, GivesASingleSlotOfAFullFrame) {
  fill();
  // Freed by a thread that keeps no slots: it goes back to its frame, which is too full
  // to be offered to anybody.
  HeapThread other = heap_->register_thread().value();
  for (const std::size_t victim : {std::size_t{0}, objects_.size() / 2, objects_.size() - 1}) {
    ASSERT_TRUE(other.free(objects_[victim]));
    ASSERT_FALSE(thread_->try_alloc(kBytes)) << "no handler may look through all frames";
    Outcome outcome;
    ASSERT_EQ(park(kBytes, outcome), ErrorCode::kOk);
    step_to_the_end();
    ASSERT_EQ(outcome.code, ErrorCode::kOk) << victim;
    heap_->check_invariants();
  }
  Outcome outcome;
  ASSERT_EQ(park(kBytes, outcome), ErrorCode::kOk);
  step_to_the_end();
  EXPECT_EQ(outcome.code, ErrorCode::kOutOfMemory) << "there are no more";
}

TEST_F(ShortageTest, AnEmbeddedThreadTakesSingleSlotsByItself) {
  fill();
  HeapThread other = heap_->register_thread().value();
  ASSERT_TRUE(other.free(objects_[1]));
  ASSERT_TRUE(other.free(objects_[objects_.size() / 2]));
  ASSERT_TRUE(thread_->alloc(kBytes));
  ASSERT_TRUE(thread_->alloc(kBytes));
  EXPECT_EQ(thread_->alloc(kBytes).error(), ErrorCode::kOutOfMemory);
}

TEST_F(ShortageTest, WorksInStepsBetweenWhichAnythingMayHappen) {
  fill();
  thin_out();
  Outcome outcome;
  ASSERT_EQ(park(1 << 20, outcome), ErrorCode::kOk);
  int steps = 0;
  while (shortage_->size() != 0 && steps < 100'000) {
    shortage_->step({.blocks = 1, .time = std::chrono::microseconds(1)});
    ++steps;
    // Others go on, and find all that they had.
    std::vector<std::byte> out(kBytes);
    ASSERT_TRUE(thread_->read(objects_[0], out));
  }
  EXPECT_EQ(outcome.code, ErrorCode::kOk);
  EXPECT_GT(steps, 10);
}

TEST_F(ShortageTest, SaysSoIfThereIsNoMemoryToWin) {
  fill();
  Outcome outcome;
  ASSERT_EQ(park(kBytes, outcome), ErrorCode::kOk);
  step_to_the_end();
  EXPECT_EQ(outcome.code, ErrorCode::kOutOfMemory);
  EXPECT_GT(outcome.attempts, 1) << "it was tried after each step, and not only at the end";
}

TEST_F(ShortageTest, GivesWhatAnotherFrees) {
  bool asked = false;
  start({.on_shortage = [&] {
    asked = true;
    for (const ObjectPtr object : objects_) EXPECT_TRUE(thread_->free(object));
    return true;
  }});
  fill();
  Outcome outcome;
  ASSERT_EQ(park(kBytes, outcome), ErrorCode::kOk);
  step_to_the_end();
  EXPECT_TRUE(asked);
  EXPECT_EQ(outcome.code, ErrorCode::kOk);
}

TEST_F(ShortageTest, DoesNotTryForEverWhatOthersAreFasterAt) {
  int rounds = 0;
  start({.on_shortage = [&] {
    ++rounds;
    return true;
  }});
  fill();
  Outcome outcome;
  ASSERT_EQ(park(kBytes, outcome), ErrorCode::kOk);
  step_to_the_end();
  EXPECT_EQ(outcome.code, ErrorCode::kOutOfMemory);
  EXPECT_GT(rounds, 1);
  EXPECT_LE(rounds, 8);
}

TEST_F(ShortageTest, JudgesACallByARoundThatItHasSeenFromTheBeginning) {
  Outcome first;
  Outcome second;
  bool is_parked = false;
  start({.on_shortage = [&] {
    const bool is_first_round = !std::exchange(is_parked, true);
    EXPECT_EQ(is_first_round ? park(kBytes, second) : ErrorCode::kOk, ErrorCode::kOk);
    return false;
  }});
  fill();
  ASSERT_EQ(park(kBytes, first), ErrorCode::kOk);
  for (int i = 0; i < 1000 && !first.code; ++i) shortage_->step({});
  EXPECT_EQ(first.code, ErrorCode::kOutOfMemory);
  EXPECT_FALSE(second.code) << "its round is the next";
  step_to_the_end();
  EXPECT_EQ(second.code, ErrorCode::kOutOfMemory);
}

TEST_F(ShortageTest, EndsACallAtItsDeadline) {
  start({.on_shortage = [] { return true; }});
  fill();
  Outcome outcome;
  ASSERT_EQ(park(kBytes, outcome, Deadline::after(clock_, std::chrono::hours(1))), ErrorCode::kOk);
  shortage_->step({});
  EXPECT_FALSE(outcome.code);
  clock_.shift = std::chrono::hours(2);
  shortage_->step({});
  EXPECT_EQ(outcome.code, ErrorCode::kDeadlineExceeded);
}

TEST_F(ShortageTest, AllocatesNothingForAClientThatIsGone) {
  fill();
  Outcome outcome{.is_abandoned = true};
  ASSERT_EQ(park(kBytes, outcome), ErrorCode::kOk);
  thin_out();
  step_to_the_end();
  EXPECT_FALSE(outcome.code);
  EXPECT_EQ(outcome.attempts, 0);
}

TEST_F(ShortageTest, TakesNoMoreCallsThanItMay) {
  start({.max_calls = 2});
  fill();
  Outcome outcomes[3];
  EXPECT_EQ(park(kBytes, outcomes[0]), ErrorCode::kOk);
  EXPECT_EQ(park(kBytes, outcomes[1]), ErrorCode::kOk);
  EXPECT_EQ(park(kBytes, outcomes[2]), ErrorCode::kOverloaded);
  step_to_the_end();
  EXPECT_EQ(park(kBytes, outcomes[2]), ErrorCode::kOk) << "there is room again";
  step_to_the_end();
}

TEST_F(ShortageTest, EndsAllCallsWhenTheNodeStops) {
  fill();
  Outcome waiting;
  Outcome late;
  Outcome gone{.is_abandoned = true};
  ASSERT_EQ(park(kBytes, waiting), ErrorCode::kOk);
  ASSERT_EQ(park(kBytes, gone), ErrorCode::kOk);
  shortage_->close();
  EXPECT_EQ(waiting.code, ErrorCode::kStopping);
  EXPECT_FALSE(gone.code);
  EXPECT_EQ(shortage_->size(), 0u);
  EXPECT_EQ(park(kBytes, late), ErrorCode::kStopping);
}

TEST_F(ShortageTest, TellsWhoeverLooksForMemory) {
  int told = 0;
  start({.on_park = [&] { ++told; }});
  fill();
  Outcome outcome;
  ASSERT_EQ(park(kBytes, outcome), ErrorCode::kOk);
  EXPECT_EQ(told, 1);
  step_to_the_end();
}

}  // namespace
}  // namespace yonder::node::internal
