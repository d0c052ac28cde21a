#pragma once
// Doorbell: "look again", from any thread to the thread that makes progress.
//
// Ringing costs a system call only if the other side sleeps. The sleeper sets
// `asleep`, looks once more, and then sleeps on the descriptor; a ringer sets
// `rung`, then reads `asleep`. Both are sequentially consistent, so one of the
// two sees the other: no ring is lost (Dekker).
//
// Concurrency: ring() any thread; the rest: the one thread that sleeps, which
// may change over time.

#include <atomic>
#include <memory>

#include "yonder/os/eventfd.h"

namespace yonder::fabric::tcp {

class Doorbell {
 public:
  static Result<std::shared_ptr<Doorbell>> create() {
    YONDER_TRY(event, os::EventFd::create());
    return std::make_shared<Doorbell>(std::move(event));
  }
  explicit Doorbell(os::EventFd event) : event_(std::move(event)) {}

  void ring() {
    rung_.store(true);
    if (asleep_.load()) event_.ring();
  }

  // True if it was rung since the last call.
  bool take() { return rung_.load(std::memory_order_relaxed) && rung_.exchange(false); }
  // Before sleeping: false if it was rung and the caller must look instead.
  bool lie_down() {
    asleep_.store(true);
    return !rung_.load();
  }
  void get_up() {
    asleep_.store(false);
    event_.take();
  }
  const os::Fd& fd() const { return event_.fd(); }

 private:
  std::atomic<bool> rung_{false};
  std::atomic<bool> asleep_{false};
  os::EventFd event_;
};

}  // namespace yonder::fabric::tcp
