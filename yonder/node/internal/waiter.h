#pragma once
// Waiter: the pauses of somebody who waits for an object that another thread holds.
//
// An object is held for one copy, so the wait is usually shorter than a system
// call; if the holder lost its core, the waiter gives its own away.
//
// Concurrency: one thread. Lifetime: the clock outlives it.

#include <cstdint>
#include <thread>

#include "yonder/base/time.h"
#include "yonder/sync/spin.h"

namespace yonder::node::internal {

class Waiter {
 public:
  Waiter(const Clock& clock, Duration longest) : clock_(clock), longest_(longest) {}

  // Pauses; false if the longest wait is over.
  bool pause() {
    ++rounds_;
    if (rounds_ <= kSpins) {
      sync::cpu_pause();
      return true;
    }
    if (rounds_ == kSpins + 1) deadline_ = Deadline::after(clock_, longest_);
    std::this_thread::yield();
    return !deadline_.passed(clock_.now());
  }

 private:
  static constexpr std::uint32_t kSpins = 256;
  const Clock& clock_;
  const Duration longest_;
  Deadline deadline_;
  std::uint32_t rounds_ = 0;
};

}  // namespace yonder::node::internal
