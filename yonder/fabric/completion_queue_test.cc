#include "yonder/fabric/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

namespace yonder::fabric {
namespace {

class FakeClock final : public Clock {
 public:
  Instant now() const override { return Instant::from_ns(1); }
};

// A queue whose completions are put in by hand.
class FakeQueue final : public CompletionQueue {
 public:
  explicit FakeQueue(std::uint32_t capacity) : CompletionQueue(capacity) {}
  void push(const Completion& completion) { waiting_.push_back(completion); }
  void wake() override {}
  const Clock& clock() const override { return clock_; }
  int waits() const { return waits_; }

 protected:
  std::size_t do_poll(std::span<Completion> out) override {
    std::size_t count = 0;
    for (; count < out.size() && !waiting_.empty(); ++count) {
      out[count] = waiting_.front();
      waiting_.pop_front();
    }
    return count;
  }
  Result<void> do_wait(Deadline) override {
    ++waits_;
    return {};
  }

 private:
  FakeClock clock_;
  int waits_ = 0;
  std::deque<Completion> waiting_;
};

struct CountingOperation : Operation {
  CountingOperation() : Operation(&CountingOperation::count) {}
  static void count(Operation& self, const Completion&) { ++static_cast<CountingOperation&>(self).calls; }
  Completion completion() {
    return {.user_data = reinterpret_cast<std::uint64_t>(static_cast<Operation*>(this)),
            .flags = RequestFlags::kOperation};
  }
  int calls = 0;
};

TEST(CompletionQueue, CallsOperationsAndReturnsTheRest) {
  FakeQueue queue(16);
  CountingOperation operation;
  queue.push({.user_data = 1});
  queue.push(operation.completion());
  queue.push({.user_data = 2});
  std::array<Completion, 8> out;
  ASSERT_EQ(queue.poll(out), 2u);
  EXPECT_EQ(out[0].user_data, 1u);
  EXPECT_EQ(out[1].user_data, 2u);
  EXPECT_EQ(operation.calls, 1);
  EXPECT_EQ(queue.operations_completed(), 1u);
}

TEST(CompletionQueue, KeepsRawCompletionsAsideInOrder) {
  FakeQueue queue(16);
  CountingOperation operation;
  for (std::uint64_t i = 1; i <= 5; ++i) queue.push({.user_data = i});
  queue.push(operation.completion());
  queue.poll({});
  EXPECT_EQ(operation.calls, 1);
  queue.push({.user_data = 6});
  std::vector<std::uint64_t> seen;
  std::array<Completion, 2> out;
  while (const std::size_t count = queue.poll(out)) {
    for (std::size_t i = 0; i < count; ++i) seen.push_back(out[i].user_data);
  }
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(CompletionQueue, WaitingEndsAtOnceWhileCompletionsAreAside) {
  FakeQueue queue(4);
  queue.push({.user_data = 1});
  queue.poll({});
  EXPECT_TRUE(queue.wait());
  EXPECT_EQ(queue.waits(), 0) << "the provider was not asked";
  EXPECT_TRUE(queue.wait_for_operations());
  EXPECT_EQ(queue.waits(), 1);
}

TEST(CompletionQueue, IsOverfullOnceItsCapacityIsAside) {
  FakeQueue queue(4);
  for (std::uint64_t i = 0; i < 4; ++i) queue.push({.user_data = i});
  EXPECT_FALSE(queue.is_overfull());
  queue.poll({});
  EXPECT_TRUE(queue.is_overfull());
  std::array<Completion, 1> out;
  queue.poll(out);
  EXPECT_FALSE(queue.is_overfull());
}

}  // namespace
}  // namespace yonder::fabric
