#include "yonder/os/futex.h"

#include <gtest/gtest.h>

#include <new>
#include <thread>

#include "yonder/os/mapping.h"
#include "yonder/os/membarrier.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {
namespace {

Deadline in(Duration duration) { return Deadline::at(SteadyClock::read() + duration); }
Deadline later() { return in(std::chrono::seconds(30)); }

TEST(Futex, ReturnsAtOnceIfTheWordHasChanged) {
  const std::atomic<std::uint32_t> word{1};
  EXPECT_TRUE(futex_wait(word, 0, FutexScope::kPrivate, later()));
}

TEST(Futex, EndsAtItsDeadline) {
  const std::atomic<std::uint32_t> word{0};
  EXPECT_EQ(futex_wait(word, 0, FutexScope::kPrivate, in(std::chrono::milliseconds(2))).error(),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(futex_wait(word, 0, FutexScope::kShared, Deadline::at(Instant::from_ns(1))).error(),
            ErrorCode::kDeadlineExceeded);
}

TEST(Futex, WakesASleepingThread) {
  std::atomic<std::uint32_t> word{0};
  std::thread sleeper([&] {
    while (word.load() == 0) ASSERT_TRUE(futex_wait(word, 0, FutexScope::kPrivate, later()));
  });
  word = 1;
  futex_wake(word, 1, FutexScope::kPrivate);
  sleeper.join();
}

TEST(Futex, WakingNobodyWakesNobody) {
  const std::atomic<std::uint32_t> word{0};
  EXPECT_EQ(futex_wake(word, 100, FutexScope::kPrivate), 0);
}

TEST(Futex, WakesAcrossProcesses) {
  const Mapping shared = Mapping::anonymous({.bytes = kPageBytes, .shared = true}).value();
  auto* const words = new (shared.data()) std::atomic<std::uint32_t>[2]();
  Child child = Child::fork([&] {
                  while (words[0].load() == 0)
                    if (!futex_wait(words[0], 0, FutexScope::kShared, later())) return 1;
                  words[1] = 7;
                  return 0;
                }).value();
  words[0] = 1;
  futex_wake(words[0], 1, FutexScope::kShared);
  EXPECT_TRUE(child.wait(later()).value().success());
  EXPECT_EQ(words[1].load(), 7u);
}

TEST(Membarrier, BothScopesWorkOnThisKernelOrSayTheyDoNot) {
  for (const auto scope : {Membarrier::Scope::kPrivate, Membarrier::Scope::kGlobal}) {
    const Result<Membarrier> barrier = Membarrier::create(scope);
    ASSERT_EQ(barrier.has_value(), Membarrier::available(scope));
    if (barrier) {
      barrier->issue();
    } else {
      EXPECT_EQ(barrier.error(), ErrorCode::kUnsupported);
    }
  }
}

}  // namespace
}  // namespace yonder::os
