#pragma once
// Mutex, LockGuard and Condition: the standard ones with clang's thread-safety
// marks, and with waits that have a deadline.
//
//   LockGuard lock(mutex_);
//   while (queue_.empty())
//     if (!ready_.wait(lock, deadline)) return fail(ErrorCode::kDeadlineExceeded, "take");
//
// Concurrency: any thread. Lifetime: a mutex outlives its guards; nobody waits
// on a Condition that is being destroyed.

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "yonder/base/time.h"
#include "yonder/sync/annotations.h"

namespace yonder::sync {

class YONDER_CAPABILITY("mutex") Mutex {
 public:
  void lock() YONDER_ACQUIRE() { raw_.lock(); }
  void unlock() YONDER_RELEASE() { raw_.unlock(); }
  bool try_lock() YONDER_TRY_ACQUIRE(true) { return raw_.try_lock(); }

 private:
  friend class LockGuard;
  std::mutex raw_;
};

class YONDER_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Mutex& mutex) YONDER_ACQUIRE(mutex) : lock_(mutex.raw_) {}
  ~LockGuard() YONDER_RELEASE() {}
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

class Condition {
 public:
  // Gives the lock back, sleeps until notified or the deadline passed, and takes
  // it again. False if the deadline passed. Like every condition variable it may
  // wake for no reason, so the caller loops over its own condition; the loop
  // stands in the caller, where clang sees that the lock is held.
  // Requires a deadline that is set, of the machine's steady clock.
  [[nodiscard]] bool wait(LockGuard& lock, Deadline deadline) {
    if (deadline == Deadline::never()) {
      raw_.wait(lock.lock_);
      return true;
    }
    const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline.instant().ns())};
    return raw_.wait_until(lock.lock_, until) == std::cv_status::no_timeout;
  }
  void notify_one() { raw_.notify_one(); }
  void notify_all() { raw_.notify_all(); }

 private:
  std::condition_variable raw_;
};

}  // namespace yonder::sync
