// Tasks and schedulers of the conformance suite: the same code on every provider.
#include <algorithm>

#include "yonder/fabric/conformance/bed.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"

namespace yonder::fabric::conformance {
namespace {

Task<Result<std::uint64_t>> take_ticket(Endpoint& endpoint, RemoteAddress word, Deadline deadline) {
  const Result<Completion> done = co_await endpoint.fetch_add(word, 1, deadline);
  if (!done) co_return std::unexpected(done.error());
  co_return done->value;
}

// Takes tickets and writes its own name into the slot each ticket gives it.
Task<void> worker(Endpoint& endpoint, RegionToken token, std::uint64_t name, int rounds, Deadline deadline,
                  int& failures) {
  for (int i = 0; i < rounds; ++i) {
    const Result<std::uint64_t> ticket = co_await take_ticket(endpoint, token.at(0), deadline);
    if (!ticket) {
      ++failures;
      co_return;
    }
    const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&name, 1)));
    const auto written = co_await endpoint.write(piece, token.at(8 + *ticket * 8), deadline);
    if (!written) ++failures;
  }
}

TEST_P(Conformance, ATaskAwaitsAnOperation) {
  Scheduler scheduler(*client_queue_);
  const auto first = scheduler.block_on(take_ticket(*client_, token_.at(0), soon()));
  const auto second = scheduler.block_on(take_ticket(*client_, token_.at(0), soon()));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, 0u);
  EXPECT_EQ(*second, 1u);
}

TEST_P(Conformance, ManyTasksShareAThreadAndLoseNothing) {
  constexpr std::uint64_t kTasks = 40;
  constexpr int kRounds = 10;
  Scheduler scheduler(*client_queue_);
  int failures = 0;
  for (std::uint64_t i = 1; i <= kTasks; ++i)
    scheduler.spawn(worker(*client_, token_, i, kRounds, soon(), failures));
  const auto done = scheduler.run(soon());
  ASSERT_TRUE(done) << done.error();
  EXPECT_EQ(failures, 0);
  std::vector<std::uint64_t> words(1 + kTasks * kRounds);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = load_word(memory_.bytes, i * 8);
  EXPECT_EQ(words[0], kTasks * kRounds);
  for (std::uint64_t name = 1; name <= kTasks; ++name) {
    EXPECT_EQ(std::count(words.begin() + 1, words.end(), name), kRounds) << name;
  }
}

TEST_P(Conformance, AnAwaitedFailureIsAResult) {
  Scheduler scheduler(*client_queue_);
  const auto refused = scheduler.block_on(take_ticket(*client_, token_.at(3), soon()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ErrorCode::kMisaligned);
}

Task<void> nap(Scheduler& scheduler, Duration duration, std::vector<int>& order, int name) {
  co_await scheduler.sleep_for(duration);
  order.push_back(name);
}

TEST_P(Conformance, SleepersWakeInTheOrderOfTheirTimers) {
  Scheduler scheduler(*client_queue_);
  std::vector<int> order;
  scheduler.spawn(nap(scheduler, std::chrono::milliseconds(30), order, 3));
  scheduler.spawn(nap(scheduler, std::chrono::milliseconds(1), order, 1));
  scheduler.spawn(nap(scheduler, std::chrono::milliseconds(10), order, 2));
  ASSERT_TRUE(scheduler.run(soon()));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_P(Conformance, RunStopsAtItsDeadlineAndCanGoOn) {
  Scheduler scheduler(*client_queue_);
  std::vector<int> order;
  scheduler.spawn(nap(scheduler, std::chrono::milliseconds(40), order, 1));
  const auto early = scheduler.run(soon(std::chrono::milliseconds(2)));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler.running(), 1u);
  ASSERT_TRUE(scheduler.run(soon()));
  EXPECT_EQ(order.size(), 1u);
}

}  // namespace
}  // namespace yonder::fabric::conformance
