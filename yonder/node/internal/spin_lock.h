#pragma once
// SpinLock: one byte that is held for a few dozen instructions.
//
// Every frame has one, and there are as many frames as pages, so a std::mutex (40
// bytes, and a system call to sleep in) would cost more than what it protects. The
// holder never waits for anything; a waiter gives its core away after a while,
// because with two cores the holder may be the thread it displaced.
//
// Concurrency: any thread. Lifetime: plain.

#include <atomic>
#include <cstdint>
#include <thread>

#include "yonder/sync/annotations.h"
#include "yonder/sync/spin.h"

namespace yonder::node::internal {

class YONDER_CAPABILITY("spin lock") SpinLock {
 public:
  void lock() YONDER_ACQUIRE() {
    // acquire: pairs with the release in unlock(); what the holder did is visible.
    for (std::uint32_t round = 0; held_.exchange(true, std::memory_order_acquire); ++round) {
      // relaxed: only a reason to try again.
      for (int i = 0; i < kSpins && held_.load(std::memory_order_relaxed); ++i) sync::cpu_pause();
      if (round >= 2) std::this_thread::yield();
    }
  }
  void unlock() YONDER_RELEASE() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  std::atomic<bool> held_{false};
};

class YONDER_SCOPED_CAPABILITY SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) YONDER_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() YONDER_RELEASE() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace yonder::node::internal
