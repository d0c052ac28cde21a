#pragma once
// PageRuns: which pages of a space are not given out.
//
// Free runs of neighbours, merged when they meet; the smallest that fits is taken, from
// its start. What is said about them lives outside the space, so that giving and taking
// touches no page of it.
//
// Concurrency: any thread (one lock). Lifetime: owns nothing of the space.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "yonder/sync/spin_lock.h"

namespace yonder::heap::internal {

class PageRuns {
 public:
  // All of [0, pages) is free.
  explicit PageRuns(std::size_t pages) { insert(0, pages); }

  // `count` neighbours, the first a multiple of `alignment`. Nothing: there are none.
  // Requires count and alignment of at least 1.
  std::optional<std::size_t> take(std::size_t count, std::size_t alignment = 1);
  // Exactly these, if they are free.
  bool take_at(std::size_t first, std::size_t count);
  // Requires that they were taken.
  void give(std::size_t first, std::size_t count);
  std::size_t free_pages() const;

  // For fork(): nobody is inside between the two.
  void lock() YONDER_ACQUIRE(lock_) { lock_.lock(); }
  void unlock() YONDER_RELEASE(lock_) { lock_.unlock(); }

 private:
  using ByAddress = std::map<std::size_t, std::size_t>;  // First page → how many.

  void insert(std::size_t first, std::size_t count) YONDER_REQUIRES(lock_);
  void erase(ByAddress::iterator run) YONDER_REQUIRES(lock_);
  void cut(ByAddress::iterator run, std::size_t first, std::size_t count) YONDER_REQUIRES(lock_);

  mutable sync::SpinLock lock_;
  ByAddress runs_ YONDER_GUARDED_BY(lock_);
  std::set<std::pair<std::size_t, std::size_t>> by_size_ YONDER_GUARDED_BY(lock_);  // (How many, first).
  std::size_t free_ YONDER_GUARDED_BY(lock_) = 0;
};

}  // namespace yonder::heap::internal
