#pragma once
// EventFd: a doorbell with a descriptor, so that a sleeping thread or process
// can be woken and the wake-up can be one of many things an Epoll waits for.
//
// Rings add up until they are taken: a ring before the wait is not lost.
//
// Concurrency: any thread, and any process that holds the descriptor.
// Lifetime: owns its descriptor; move-only.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/fd.h"

namespace yonder::os {

class EventFd {
 public:
  // Errors: kResourceExhausted (descriptors), kOutOfMemory.
  static Result<EventFd> create();
  // Takes over an eventfd that came from elsewhere (another process, say).
  static EventFd adopt(Fd fd) { return EventFd(std::move(fd)); }

  // Wakes the waiter. Never blocks and cannot fail: at 2^64 - 2 untaken rings
  // the counter is full, and a full counter wakes as well. Async-signal-safe.
  void ring() const;
  // Takes all rings: how many there were, 0 if none.
  std::uint64_t take() const;
  // Waits for a ring and takes all. Errors: kDeadlineExceeded, kOsError.
  Result<std::uint64_t> wait(Deadline deadline) const;

  const Fd& fd() const { return fd_; }

 private:
  explicit EventFd(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace yonder::os
