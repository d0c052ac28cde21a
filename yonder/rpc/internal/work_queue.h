#pragma once
// Requests that wait for a worker: one bounded queue for all pollers and workers.
//
// A lock and a condition: whoever goes through here pays for waking a thread
// (tens of microseconds), so a lock-free queue would save nothing that shows.
//
// Concurrency: any thread. Lifetime: borrows exchanges and receives; empty when
// destroyed (checked).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/base/time.h"
#include "yonder/rpc/handler.h"
#include "yonder/rpc/internal/exchange.h"
#include "yonder/sync/mutex.h"

namespace yonder::rpc {

struct ServerReceive;

struct Work {
  Context context;
  Exchange* exchange = nullptr;
  ServerReceive* receive = nullptr;  // Holds the payload until the handler returns.
  std::span<const std::byte> payload;
};

class WorkQueue {
 public:
  explicit WorkQueue(std::uint32_t capacity) : ring_(capacity) {}
  ~WorkQueue() { YONDER_CHECK(count_ == 0, "every request that was queued is answered"); }

  // False if it is full.
  bool try_push(const Work& work) YONDER_EXCLUDES(mutex_) {
    {
      sync::LockGuard lock(mutex_);
      if (count_ == ring_.size()) return false;
      ring_[(first_ + count_) % ring_.size()] = work;
      ++count_;
    }
    changed_.notify_one();
    return true;
  }

  // Waits for work; false when the queue was closed and nothing is left.
  bool pop(Work& work) YONDER_EXCLUDES(mutex_) {
    sync::LockGuard lock(mutex_);
    while (count_ == 0) {
      if (closed_) return false;
      (void)changed_.wait(lock, Deadline::never());  // close() ends it.
    }
    work = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return true;
  }

  void close() YONDER_EXCLUDES(mutex_) {
    {
      sync::LockGuard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  sync::Mutex mutex_;
  sync::Condition changed_;
  std::vector<Work> ring_ YONDER_GUARDED_BY(mutex_);
  std::size_t first_ YONDER_GUARDED_BY(mutex_) = 0;
  std::size_t count_ YONDER_GUARDED_BY(mutex_) = 0;
  bool closed_ YONDER_GUARDED_BY(mutex_) = false;
};

}  // namespace yonder::rpc
