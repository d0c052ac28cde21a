#pragma once
// A bell: how the service thread gets the attention of a queue's thread.
//
// The queue looks at `raised` on every poll (a plain load), and sleeps on the
// descriptor. Links and seats hold the bell by shared pointer, so that an event
// that arrives late rings something that still exists.
//
// Concurrency: raise() from any thread; take() by the thread that listens.

#include <atomic>
#include <memory>

#include "yonder/base/result.h"
#include "yonder/os/eventfd.h"

namespace yonder::fabric::verbs {

class Bell {
 public:
  static Result<std::shared_ptr<Bell>> create() {
    YONDER_TRY(event, os::EventFd::create());
    return std::make_shared<Bell>(std::move(event));
  }
  explicit Bell(os::EventFd event) : event_(std::move(event)) {}

  void raise() {
    // release: pairs with take(); what the ringer did is visible to the listener.
    if (!raised_.exchange(true, std::memory_order_acq_rel)) event_.ring();
  }
  // relaxed: a ring that is missed now is seen by the next poll.
  bool is_raised() const { return raised_.load(std::memory_order_relaxed); }
  // True if somebody rang since the last call.
  bool take() {
    if (!is_raised()) return false;
    event_.take();
    // acquire: pairs with raise(). The descriptor is emptied first: a ring in
    // between leaves it readable, which costs one idle round, and loses nothing.
    return raised_.exchange(false, std::memory_order_acq_rel);
  }

  const os::EventFd& event() const { return event_; }

 private:
  os::EventFd event_;
  std::atomic<bool> raised_{false};
};

}  // namespace yonder::fabric::verbs
