#pragma once
// ThreadRegistry: all threads that use the heap, and the barrier that makes their
// marks reliable.
//
// Records exist from the start, and used_ only grows: a scan reads those that were
// ever used. It misses a thread only if that one registered later, and then what it
// scans for is not there: bins are opened under the lock that who empties them
// holds, and a section of a thread that start_grace() does not see began after its
// barrier.
//
// Concurrency: any thread. Lifetime: the heap's.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/node/internal/thread_record.h"
#include "yonder/os/membarrier.h"
#include "yonder/sync/mutex.h"

namespace yonder::node::internal {

// Waits for threads that were inside a section when it began.
class GracePeriod {
 public:
  // Every one of them has left that section.
  bool is_over() const {
    return std::ranges::all_of(readers_, [](const auto& reader) {
      // acquire: pairs with the release at a section's end.
      return reader.first->activity.load(std::memory_order_acquire) != reader.second;
    });
  }

 private:
  friend class ThreadRegistry;
  std::vector<std::pair<const ThreadRecord*, std::uint64_t>> readers_;  // who, in which section
};

class ThreadRegistry {
 public:
  struct Options {
    std::uint32_t max_threads = 1;
    const SizeClasses* classes = nullptr;  // A bin for each, and one for the counters of spans.
    std::uint64_t seed = 0;
  };
  explicit ThreadRegistry(const Options& options);

  // kResourceExhausted: as many as there may be.
  Result<ThreadRecord*> add();
  // Its bins are empty, and it is in no section.
  void remove(ThreadRecord& record);

  // Every thread has executed a full memory barrier between call and return.
  void barrier() const {
    if (membarrier_)
      membarrier_->issue();
    else
      sync::StdAtomics::full_fence();
  }
  // After it is over, nobody uses what could not be found any more when it began.
  GracePeriod start_grace() const;
  // Also of those that nobody has used yet, before the heap is used.
  std::span<ThreadRecord> all_records() const { return {records_.get(), max_threads_}; }
  // Of every thread that is or was registered.
  std::span<ThreadRecord> records() const {
    // acquire: pairs with the release in add(); nothing of the record is older.
    return {records_.get(), used_.load(std::memory_order_acquire)};
  }

 private:
  const std::uint32_t max_threads_;
  const std::unique_ptr<ThreadRecord[]> records_;
  std::atomic<std::uint32_t> used_{0};  // Records; changed under mutex_.
  std::optional<os::Membarrier> membarrier_;
  sync::Mutex mutex_;
};

}  // namespace yonder::node::internal
