#pragma once
// Completions that wait to be polled, oldest first. The sum of all reservations
// is its capacity, so it cannot overflow.
//
// Concurrency: the thread of the completion queue.

#include <cstddef>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/fabric/tcp/internal/account.h"

namespace yonder::fabric::tcp {

class FinishedRing {
 public:
  explicit FinishedRing(std::size_t capacity) : ring_(capacity) {}
  bool empty() const { return count_ == 0; }
  // The new entry, to be filled by the caller, every field.
  Finished& push() {
    YONDER_CHECK(count_ < ring_.size(), "completions are reserved before requests are taken");
    if (count_ == 0) first_ = 0;  // Stays in the cache instead of wandering through the ring.
    const std::size_t at = first_ + count_++;
    return ring_[at < ring_.size() ? at : at - ring_.size()];
  }
  // The oldest entry; stays valid until the next push().
  const Finished& pop() {
    YONDER_CHECK(count_ != 0, "a completion is polled once");
    const Finished& finished = ring_[first_];
    if (++first_ == ring_.size()) first_ = 0;
    --count_;
    return finished;
  }

 private:
  std::vector<Finished> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace yonder::fabric::tcp
