#pragma once
// A list of free numbers (frames, slots, pages): taken and given back one at a time or in
// runs, lowest first as far as that is cheap.
//
// Numbers that were never given back are handed out in order, so a fresh heap places its
// pages one after the other; then the last given back come first, while they are warm.
//
// Concurrency: any thread, behind a spin lock. Lifetime: holds at most as many numbers as it
// was made for; memory for them is taken as needed.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "yonder/sync/spin_lock.h"

namespace yonder::heap::internal {

class IndexList {
 public:
  // Hands out first … end - 1.
  explicit IndexList(std::uint32_t first = 0, std::uint32_t end = 0)
      : next_(first), end_(end), size_(end - first) {}

  std::optional<std::uint32_t> take() {
    // relaxed: only saves the lock when there is nothing; a number that comes at this moment is missed.
    if (size_.load(std::memory_order_relaxed) == 0) return std::nullopt;
    const sync::SpinGuard guard(lock_);
    if (!returned_.empty()) {
      const std::uint32_t index = returned_.back();
      returned_.pop_back();
      size_.fetch_sub(1, std::memory_order_relaxed);
      return index;
    }
    if (next_ == end_) return std::nullopt;
    size_.fetch_sub(1, std::memory_order_relaxed);
    return next_++;
  }

  void give_back(std::uint32_t index) {
    const sync::SpinGuard guard(lock_);
    returned_.push_back(index);
    size_.fetch_add(1, std::memory_order_relaxed);
  }

  // Hands out first … end - 1, too.
  void add(std::uint32_t first, std::uint32_t end) {
    const sync::SpinGuard guard(lock_);
    for (std::uint32_t index = end; index > first; --index) returned_.push_back(index - 1);
    size_.fetch_add(end - first, std::memory_order_relaxed);
  }

  // Takes out every number from `limit` on that is free now.
  void drop_from(std::uint32_t limit) {
    const sync::SpinGuard guard(lock_);
    std::uint32_t dropped = static_cast<std::uint32_t>(
        std::erase_if(returned_, [limit](std::uint32_t index) { return index >= limit; }));
    const std::uint32_t unused_end = std::max(next_, std::min(end_, limit));
    dropped += end_ - unused_end;
    end_ = unused_end;
    size_.fetch_sub(dropped, std::memory_order_relaxed);
  }

  // About how many are there.
  std::uint32_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  sync::SpinLock lock_;
  std::vector<std::uint32_t> returned_ YONDER_GUARDED_BY(lock_);
  std::uint32_t next_ YONDER_GUARDED_BY(lock_);
  std::uint32_t end_ YONDER_GUARDED_BY(lock_);
  std::atomic<std::uint32_t> size_;
};

}  // namespace yonder::heap::internal
