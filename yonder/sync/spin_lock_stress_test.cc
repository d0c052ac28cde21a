#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "yonder/sync/spin_lock.h"

namespace yonder::sync {
namespace {

TEST(SpinLock, IsTakenOnce) {
  SpinLock lock;
  if (!lock.try_lock()) FAIL() << "a new lock is free";
  std::thread([&lock] {
    if (!lock.try_lock()) return;
    lock.unlock();
    ADD_FAILURE() << "taken twice";
  }).join();
  lock.unlock();
  const SpinGuard guard(lock);
}

TEST(SpinLock, LosesNoIncrement) {
  struct Counter {
    SpinLock lock;
    std::uint64_t value YONDER_GUARDED_BY(lock) = 0;
  } counter;
  constexpr int kThreads = 4;  // More than this machine has cores, perhaps.
  constexpr std::uint64_t kRounds = 50'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter] {
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        const SpinGuard guard(counter.lock);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SpinGuard guard(counter.lock);
  EXPECT_EQ(counter.value, kThreads * kRounds);
}

}  // namespace
}  // namespace yonder::sync
