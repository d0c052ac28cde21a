// Functions on a real node: right results, and every way in which a function can go wrong, after
// each of which the node and the client are as they were.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/e2e/daemon.h"
#include "tests/e2e/offload_functions.h"
#include "yonder/base/prng.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/offload_line.h"
#include "yonder/heap/offload_space.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/seed.h"

YONDER_REMOTABLE(yonder::e2e::ListNode, value, next);

namespace yonder::e2e {
namespace {

using namespace std::chrono_literals;
using far::OffloadSpace;

constexpr Duration kTime = 20s;
constexpr std::size_t kBudgetPages = 128;

template <typename T>
ErrorCode code_of(const Result<T>& result) {
  return result ? ErrorCode::kOk : result.error().code();
}
template <typename T>
std::int64_t detail_of(const Result<T>& result) {
  return result ? 0 : result.error().detail();
}

class OffloadTest : public ::testing::TestWithParam<const char*> {
 protected:
  explicit OffloadTest(std::vector<std::string> more = {}) : daemon_(start(std::move(more))) {}

  static Program start(std::vector<std::string> more) {
    std::vector<std::string> flags = {"--extents", "256MiB", "--functions", FUNCTIONS};
    flags.insert(flags.end(), more.begin(), more.end());
    return start_daemon({.program = YONDERD, .flags = flags});
  }
  std::unique_ptr<OffloadSpace> make_space(std::uint64_t bytes = 8 << 20) {
    auto space = OffloadSpace::create({.node = daemon_.address(GetParam()),
                                       .bytes = Bytes(bytes),
                                       .budget = Bytes(kBudgetPages * 4096),
                                       .timeout = 2s,
                                       .patience = 2s});
    EXPECT_TRUE(space) << space.error().to_string();
    return *std::move(space);
  }
  static std::span<std::uint64_t> make_numbers(OffloadSpace& space, std::size_t count) {
    const auto numbers = space.make_array<std::uint64_t>(count).value();
    std::iota(numbers.begin(), numbers.end(), 1);
    return numbers;
  }
  static std::uint64_t sum_of(std::uint64_t count) { return count * (count + 1) / 2; }

  static Result<std::uint64_t> sum(OffloadSpace& space, std::span<std::uint64_t> numbers) {
    return space.call<std::uint64_t>(
        {"e2e.sum", 3}, Numbers{.values = numbers.data(), .count = numbers.size(), .argument = 0},
        {far::reads(numbers)}, kTime);
  }
  static Result<void> add(OffloadSpace& space, std::span<std::uint64_t> numbers, std::uint64_t by) {
    return space.call<void>({"e2e.add", 1},
                            Numbers{.values = numbers.data(), .count = numbers.size(), .argument = by},
                            {far::writes(numbers)}, kTime);
  }
  // A call without memory.
  template <typename R = void, typename A = int>
  static Result<R> call(OffloadSpace& space, std::string_view function, const A& argument = {},
                        Duration time = kTime) {
    return space.call<R>({function, 1}, argument, {}, time);
  }
  // Until a worker computes.
  static void wait_until_busy(pid_t pid) {
    const Duration before = os::usage_of(pid).value().cpu_time;
    for (int i = 0; i < 2000; ++i) {
      const auto usage = os::usage_of(pid);
      ASSERT_TRUE(usage);
      if (usage->cpu_time - before >= 30ms) return;
      std::this_thread::sleep_for(5ms);
    }
    FAIL() << "the function does not run";
  }
  // After whatever happened.
  void expect_all_well(OffloadSpace& space) {
    const auto numbers = make_numbers(space, 5000);
    const auto total = sum(space, numbers);
    ASSERT_TRUE(total) << total.error().to_string();
    EXPECT_EQ(*total, sum_of(5000));
    space.free(numbers.data());
    const auto other = connect(daemon_.address(GetParam()));
    EXPECT_TRUE(other->alloc(64));
  }

  Program daemon_;
};

TEST_P(OffloadTest, AFunctionSeesWhatTheClientWrote) {
  const auto space = make_space();
  // Eight times the local budget: some of it is far, some here and dirty.
  const auto numbers = make_numbers(*space, kBudgetPages * 8 * 512);
  EXPECT_EQ(sum(*space, numbers).value(), sum_of(numbers.size()));
  numbers[7] += 100;
  EXPECT_EQ(sum(*space, numbers).value(), sum_of(numbers.size()) + 100);
}

TEST_P(OffloadTest, TheClientSeesWhatAFunctionWrote) {
  const auto space = make_space();
  const auto numbers = make_numbers(*space, kBudgetPages * 4 * 512);
  ASSERT_TRUE(add(*space, numbers, 1000));
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i + 1001);
  // Memory that was never touched is zero there, too.
  const auto fresh = space->make_array<std::uint64_t>(5000).value();
  ASSERT_TRUE(add(*space, fresh, 3));
  for (const std::uint64_t value : fresh) ASSERT_EQ(value, 3u);
}

TEST_P(OffloadTest, PointersMeanTheSameOnBothSides) {
  const auto space = make_space();
  ListNode* list = nullptr;
  std::uint64_t expected = 0;
  std::vector<ListNode*> nodes;
  for (std::uint64_t i = 0; i < 3000; ++i) nodes.push_back(space->make<ListNode>(i, nullptr).value());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    nodes[i]->next = list;
    list = nodes[i];
  }
  for (std::uint64_t i = 0; i < 3000; ++i) expected = expected * 31 + i;
  EXPECT_EQ(space->call<std::uint64_t>({"e2e.walk", 1}, list, {far::reads(space->memory())}, kTime).value(),
            expected);
}

TEST_P(OffloadTest, ResultsHaveAnyLengthUpToALimit) {
  const auto space = make_space();
  const std::uint64_t some = 15'000;
  const auto letters =
      space->call_raw({"e2e.letters", 1}, std::as_bytes(std::span(&some, 1)), {}, kTime).value();
  EXPECT_EQ(letters, std::vector<std::byte>(some, std::byte{'y'}));
  const std::uint64_t many = 100'000;
  EXPECT_EQ(code_of(space->call_raw({"e2e.letters", 1}, std::as_bytes(std::span(&many, 1)), {}, kTime)),
            ErrorCode::kMessageTooLong);
  EXPECT_EQ(code_of(call<std::uint64_t>(*space, "e2e.letters", some)), ErrorCode::kCorrupt);
  expect_all_well(*space);
}

TEST_P(OffloadTest, FunctionsAreFoundByNameAndVersion) {
  const auto space = make_space();
  EXPECT_EQ(code_of(call(*space, "e2e.nothing")), ErrorCode::kUnknownFunction);
  EXPECT_EQ(code_of(call(*space, "nothing.sum")), ErrorCode::kUnknownFunction);
  EXPECT_EQ(code_of(call(*space, "broken.sum")), ErrorCode::kUnknownFunction);
  for (const char* name : {"../e2e.sum", "sum", "", "e2e/../e2e.sum", "e2e.sum.so", "/tmp/e2e.sum"})
    EXPECT_EQ(code_of(call(*space, name)), ErrorCode::kInvalidArgument) << name;
  const auto wrong = space->call<std::uint64_t>({"e2e.sum", 2}, Numbers{}, {}, kTime);
  EXPECT_EQ(code_of(wrong), ErrorCode::kFunctionVersion);
  EXPECT_EQ(detail_of(wrong), 3);
  EXPECT_EQ(code_of(space->call<std::uint64_t>({"e2e.sum", 3}, 'x', {}, kTime)), ErrorCode::kBadRequest);
  expect_all_well(*space);
}

TEST_P(OffloadTest, AWorkerStaysForTheNextCall) {
  const auto space = make_space();
  for (std::uint64_t i = 0; i < 50; ++i)
    EXPECT_EQ(call<std::uint64_t>(*space, "e2e.calls_before").value(), i);
  EXPECT_EQ(code_of(call(*space, "e2e.crash")), ErrorCode::kFunctionCrashed);
  EXPECT_EQ(call<std::uint64_t>(*space, "e2e.calls_before").value(), 0u) << "a new process";
}

TEST_P(OffloadTest, ACrashHarmsNobody) {
  const auto space = make_space();
  const auto crashed = call(*space, "e2e.crash");
  EXPECT_EQ(code_of(crashed), ErrorCode::kFunctionCrashed);
  EXPECT_EQ(detail_of(crashed), SIGSEGV);
  EXPECT_EQ(detail_of(call(*space, "e2e.give_up")), SIGABRT);
  const auto left = call(*space, "e2e.leave");
  EXPECT_EQ(code_of(left), ErrorCode::kFunctionCrashed);
  EXPECT_EQ(detail_of(left), 0);
  EXPECT_EQ(code_of(call(*space, "e2e.throw_something")), ErrorCode::kFunctionCrashed);
  EXPECT_EQ(code_of(call(*space, "e2e.lie")), ErrorCode::kFunctionCrashed);
  const auto failed = call(*space, "e2e.fail_with", std::int64_t{-7});
  EXPECT_EQ(code_of(failed), ErrorCode::kFunctionFailed);
  EXPECT_EQ(detail_of(failed), -7);
  expect_all_well(*space);
}

TEST_P(OffloadTest, AnEndlessLoopEndsAtItsDeadline) {
  const auto space = make_space();
  expect_all_well(*space);  // A worker is there: starting one would take of the time.
  const Instant begin = kClock.now();
  EXPECT_EQ(code_of(call(*space, "e2e.loop", 0, 200ms)), ErrorCode::kFunctionDeadline);
  EXPECT_GE(kClock.now() - begin, 200ms);
  EXPECT_LT(kClock.now() - begin, 10s);
  expect_all_well(*space);
}

TEST_P(OffloadTest, ForbiddenSystemCallsEndTheFunction) {
  const auto space = make_space();
  const std::pair<const char*, long> calls[] = {
      {"e2e.open_file", SYS_openat},   {"e2e.open_socket", SYS_socket}, {"e2e.start_process", SYS_clone},
      {"e2e.run_program", SYS_execve}, {"e2e.signal_parent", SYS_kill}, {"e2e.map_code", SYS_mmap}};
  for (const auto& [function, number] : calls) {
    const auto refused = call(*space, function);
    EXPECT_EQ(code_of(refused), ErrorCode::kFunctionForbidden) << function;
    EXPECT_EQ(detail_of(refused), number) << function;
  }
  expect_all_well(*space);
}

TEST_P(OffloadTest, AWorkerThatIsKilledFailsItsCallOnly) {
  const auto space = make_space();
  const auto pid = static_cast<pid_t>(call<std::uint64_t>(*space, "e2e.process").value());
  ASSERT_GT(pid, 1);
  Result<void> looped;
  std::jthread caller([&] { looped = call(*space, "e2e.loop"); });
  wait_until_busy(pid);
  EXPECT_EQ(::kill(pid, SIGKILL), 0);
  caller.join();
  ASSERT_FALSE(looped);
  EXPECT_EQ(code_of(looped), ErrorCode::kFunctionCrashed);
  EXPECT_EQ(detail_of(looped), SIGKILL);
  expect_all_well(*space);
}

TEST_P(OffloadTest, AnAccessDuringACallWaitsAndSeesTheResult) {
  const auto space = make_space();
  const auto numbers = make_numbers(*space, 4096);
  std::atomic<bool> started{false};
  std::jthread caller([&] {
    started.store(true);
    EXPECT_TRUE(space->call<void>({"e2e.add_slowly", 1},
                                  Numbers{.values = numbers.data(), .count = numbers.size(), .argument = 150},
                                  {far::writes(numbers)}, kTime));
  });
  while (!started.load()) std::this_thread::yield();
  // Until the call has begun this sees the old value, then it waits, and sees the last one: never
  // the one between.
  std::uint64_t seen = 1;
  while (seen == 1) {
    seen = std::atomic_ref(numbers[0]).load(std::memory_order_relaxed);
    ASSERT_TRUE(seen == 1 || seen == 3) << seen;
  }
  caller.join();
  EXPECT_EQ(numbers[4095], 4098u);
}

TEST_P(OffloadTest, CallsAndAccessesOfManyThreadsLoseNothing) {
  const auto space = make_space();
  const auto numbers = space->make_array<std::uint64_t>(kBudgetPages * 3 * 512).value();
  std::vector<std::uint64_t> expected(numbers.size());
  std::vector<std::jthread> threads;
  const std::size_t half = numbers.size() / 2;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Prng random(::yonder::testing::test_seed() + t);
      // Each thread has every other number, so that all pages are everybody's.
      for (int step = 0; step < 60; ++step) {
        if (random.below(3) == 0) {
          const std::size_t first = random.below(half);
          const std::size_t count = 1 + random.below(half);
          ASSERT_TRUE(add(*space, numbers.subspan(first, count), 1 << 20));
          for (std::size_t i = first; i < first + count; ++i)
            std::atomic_ref(expected[i]).fetch_add(1 << 20, std::memory_order_relaxed);
        }
        for (int i = 0; i < 200; ++i) {
          const std::size_t at = random.below(half) * 2 + t;
          std::atomic_ref(numbers[at]).fetch_add(1, std::memory_order_relaxed);
          std::atomic_ref(expected[at]).fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  }
  threads.clear();
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], expected[i]) << i;
}

// ---------------------------------------------------------------- coroutines

using far::OffloadLine;

fabric::Task<void> add_often(OffloadLine& line, std::span<std::uint64_t> numbers, int times, int& done) {
  for (int i = 0; i < times; ++i) {
    const Result<void> added = co_await line.async_call<void>(
        {"e2e.add", 1}, Numbers{.values = numbers.data(), .count = numbers.size(), .argument = 1},
        far::lent(far::writes(numbers)), kTime);
    EXPECT_TRUE(added) << added.error().to_string();
    if (added) ++done;
  }
}

TEST_P(OffloadTest, OneThreadHasManyCallsUnderWay) {
  const auto space = make_space();
  const auto line = OffloadLine::connect(*space).value();
  const auto shared = make_numbers(*space, 2000);
  std::vector<std::span<std::uint64_t>> own;
  int done = 0;
  // Three on the same pages, which take turns, and five on their own.
  for (int i = 0; i < 3; ++i) line->scheduler().spawn(add_often(*line, shared, 4, done));
  for (int i = 0; i < 5; ++i) {
    own.push_back(make_numbers(*space, 3 * 512));
    line->scheduler().spawn(add_often(*line, own.back(), 4, done));
  }
  ASSERT_TRUE(line->scheduler().run(Deadline::at(os::SteadyClock::read() + 30s)));
  EXPECT_EQ(done, 8 * 4);
  for (std::size_t i = 0; i < shared.size(); ++i) ASSERT_EQ(shared[i], i + 1 + 12);
  for (const auto& numbers : own)
    for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i + 1 + 4);
  EXPECT_EQ(space->stats().calls, 32u);
  EXPECT_EQ(space->stats().failed, 0u);
}

TEST_P(OffloadTest, ACallIsUnderWayWhileTheThreadGoesOn) {
  const auto space = make_space();
  const auto line = OffloadLine::connect(*space).value();
  const auto numbers = make_numbers(*space, 512);
  const auto mine = make_numbers(*space, 512 * 4);
  bool ended = false;
  line->scheduler().spawn([](OffloadLine& on, std::span<std::uint64_t> of, bool& end) -> fabric::Task<void> {
    const Result<void> slept = co_await on.async_call<void>(
        {"e2e.add_slowly", 1}, Numbers{.values = of.data(), .count = of.size(), .argument = 300},
        far::lent(far::writes(of)), kTime);
    EXPECT_TRUE(slept) << slept.error().to_string();
    end = true;
  }(*line, numbers, ended));
  // It was sent, and nobody has looked for its answer.
  EXPECT_FALSE(ended);
  EXPECT_EQ(sum(*space, mine).value(), sum_of(mine.size()));
  ASSERT_TRUE(line->scheduler().run(Deadline::at(os::SteadyClock::read() + 30s)));
  EXPECT_TRUE(ended);
  EXPECT_EQ(numbers[0], 3u);
}

TEST_P(OffloadTest, ErrorsOfCoroutinesAreThoseOfCalls) {
  const auto space = make_space();
  const auto line = OffloadLine::connect(*space).value();
  const auto error_of = [&](std::string_view function, Duration time,
                            std::vector<far::LentRange> ranges = {}) {
    const Result<void> result =
        line->scheduler().block_on(line->async_call<void>({function, 1}, 0, std::move(ranges), time));
    return result ? ErrorCode::kOk : result.error().code();
  };
  EXPECT_EQ(error_of("e2e.nothing_of_this_name", kTime), ErrorCode::kUnknownFunction);
  EXPECT_EQ(error_of("e2e.loop", 200ms), ErrorCode::kFunctionDeadline);
  const std::uint64_t elsewhere = 0;
  EXPECT_EQ(error_of("e2e.loop", kTime, {far::reads(&elsewhere)}), ErrorCode::kOutOfBounds);
  // Somebody else has the pages for longer than the call has time.
  const auto numbers = make_numbers(*space, 512);
  {
    const std::array ranges = {far::writes(numbers)};
    const auto lent = space->pages().lend(ranges, Deadline::at(os::SteadyClock::read() + 1s));
    ASSERT_TRUE(lent);
    EXPECT_EQ(error_of("e2e.loop", 50ms, {far::reads(numbers)}), ErrorCode::kDeadlineExceeded);
  }
  EXPECT_EQ(space->stats().failed, 4u);
  expect_all_well(*space);
}

TEST_P(OffloadTest, AClientCannotReachAnothersMemory) {
  const auto mine = make_space();
  const auto theirs = make_space();
  const auto secret = make_numbers(*theirs, 4096);
  ASSERT_TRUE(sum(*theirs, secret));  // It is on the node, in another worker.
  const auto address = reinterpret_cast<std::uint64_t>(secret.data());
  EXPECT_EQ(code_of(call<std::uint64_t>(*mine, "e2e.peek", address)), ErrorCode::kFunctionCrashed);
  EXPECT_EQ(theirs->call<std::uint64_t>({"e2e.peek", 1}, address, {far::reads(secret)}, kTime).value(), 1u);
  expect_all_well(*mine);
}

TEST_P(OffloadTest, AnExtentThatGoesTakesItsWorkersWithIt) {
  pid_t pid = 0;
  {
    const auto space = make_space();
    pid = static_cast<pid_t>(call<std::uint64_t>(*space, "e2e.process").value());
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1) << "the space's worker outlived it";
  expect_all_well(*make_space());
}

TEST_P(OffloadTest, ANodeThatStopsEndsItsFunctionsAndTells) {
  const auto space = make_space();
  const auto pid = static_cast<pid_t>(call<std::uint64_t>(*space, "e2e.process").value());
  Result<void> looped;
  std::jthread caller([&] { looped = call(*space, "e2e.loop", 0, 8s); });
  wait_until_busy(pid);
  EXPECT_TRUE(daemon_.end(SIGTERM).success());
  caller.join();
  ASSERT_FALSE(looped);
  EXPECT_TRUE(looped.error() == ErrorCode::kStopping || looped.error() == ErrorCode::kConnectionLost)
      << looped.error().to_string();
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_P(OffloadTest, ANodeThatIsKilledTakesItsWorkersWithItAndTheCallFailsInTime) {
  const auto space = make_space();
  const auto pid = static_cast<pid_t>(call<std::uint64_t>(*space, "e2e.process").value());
  Result<void> looped;
  const Instant begin = kClock.now();
  std::jthread caller([&] { looped = call(*space, "e2e.loop", 0, 3s); });
  wait_until_busy(pid);
  EXPECT_FALSE(daemon_.end(SIGKILL).success());
  caller.join();
  ASSERT_FALSE(looped);
  EXPECT_GE(kClock.now() - begin, 3s) << "until then it might have run";
  EXPECT_LT(kClock.now() - begin, 15s);
  for (int i = 0; i < 500 && ::kill(pid, 0) == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(::kill(pid, 0), -1) << "a worker outlived its node";
}

class SmallOffloadTest : public OffloadTest {
 protected:
  SmallOffloadTest() : OffloadTest({"--node.function_memory", "16MiB", "--node.function_workers", "1"}) {}
};

TEST_P(SmallOffloadTest, MemoryOfFunctionsIsLimited) {
  const auto space = make_space();
  EXPECT_EQ(call<std::uint64_t>(*space, "e2e.hog", std::uint64_t{4} << 20).value(), 4u);
  EXPECT_EQ(code_of(call<std::uint64_t>(*space, "e2e.hog", std::uint64_t{1} << 30)),
            ErrorCode::kFunctionMemory);
  const auto numbers = make_numbers(*space, 1 << 16);
  EXPECT_EQ(space
                ->call<std::uint64_t>({"e2e.sum_of_copy", 1},
                                      Numbers{.values = numbers.data(), .count = numbers.size()},
                                      {far::reads(numbers)}, kTime)
                .value(),
            sum_of(numbers.size()));
  expect_all_well(*space);
}

TEST_P(SmallOffloadTest, SpacesShareAFewWorkers) {
  const auto one = make_space();
  const auto two = make_space();
  for (int round = 0; round < 5; ++round) {
    expect_all_well(*one);
    expect_all_well(*two);
  }
  // One worker, and it is busy: the other's call waits, and gives up.
  const auto pid = static_cast<pid_t>(call<std::uint64_t>(*one, "e2e.process").value());
  std::jthread caller(
      [&] { EXPECT_EQ(code_of(call(*one, "e2e.loop", 0, 4s)), ErrorCode::kFunctionDeadline); });
  wait_until_busy(pid);
  EXPECT_EQ(code_of(call<std::uint64_t>(*two, "e2e.process", 0, 300ms)), ErrorCode::kOverloaded);
  caller.join();
  expect_all_well(*two);
}

class WithoutFunctionsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WithoutFunctionsTest, ANodeWithoutFunctionsSaysSo) {
  Program daemon = start_daemon({.program = YONDERD, .flags = {"--extents", "64MiB"}});
  const auto space =
      OffloadSpace::create(
          {.node = daemon.address(GetParam()), .bytes = Bytes(1 << 20), .budget = Bytes(kBudgetPages * 4096)})
          .value();
  EXPECT_EQ(code_of(space->call<void>({"e2e.crash", 1}, 0, {}, kTime)), ErrorCode::kUnsupported);
}

std::string provider_name(const ::testing::TestParamInfo<const char*>& test) { return test.param; }
INSTANTIATE_TEST_SUITE_P(Providers, OffloadTest, ::testing::Values("shm", "tcp"), provider_name);
INSTANTIATE_TEST_SUITE_P(Providers, SmallOffloadTest, ::testing::Values("shm"), provider_name);
INSTANTIATE_TEST_SUITE_P(Providers, WithoutFunctionsTest, ::testing::Values("tcp"), provider_name);

}  // namespace
}  // namespace yonder::e2e
