#pragma once
// Completions that wait to be polled, oldest first. The sum of all reservations
// is its capacity, so it cannot overflow.
//
// While somebody polls, a window into the caller's memory is open: completions
// go there directly, as long as none waits before them.
//
// Concurrency: the thread of the completion queue.

#include <cstddef>
#include <span>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/fabric/tcp/internal/account.h"

namespace yonder::fabric::tcp {

class FinishedRing {
 public:
  explicit FinishedRing(std::size_t capacity) : ring_(capacity) {}
  bool empty() const { return count_ == 0; }

  // A new completion of `account`, to be filled by the caller, every field.
  Completion& add(Account& account) {
    if (count_ == 0 && filled_ < window_.size()) {
      --account.requests;
      return window_[filled_++];
    }
    YONDER_CHECK(count_ < ring_.size(), "completions are reserved before requests are taken");
    if (count_ == 0) first_ = 0;  // Stays in the cache instead of wandering through the ring.
    const std::size_t at = first_ + count_++;
    Finished& finished = ring_[at < ring_.size() ? at : at - ring_.size()];
    finished.account = &account;
    return finished.completion;
  }

  // The oldest one; stays valid until the next add(). Requires !empty() (checked).
  const Finished& pop() {
    YONDER_CHECK(count_ != 0, "a completion is polled once");
    const Finished& finished = ring_[first_];
    if (++first_ == ring_.size()) first_ = 0;
    --count_;
    return finished;
  }

  void open_window(std::span<Completion> window) {
    window_ = window;
    filled_ = 0;
  }
  // How many completions went there.
  std::size_t close_window() {
    window_ = {};
    return filled_;
  }

 private:
  std::vector<Finished> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::span<Completion> window_;
  std::size_t filled_ = 0;
};

}  // namespace yonder::fabric::tcp
