#pragma once
// Pollable: what a worker's epoll tells of events: a client or a link to another server.
//
// Concurrency: the worker's thread. Lifetime: watched from add() to its destruction, which
// happens between two rounds of the loop, never during one.

#include <cstdint>

namespace yonder::cache {

class Pollable {
 public:
  virtual ~Pollable() = default;
  // `bits` of os::EpollBits.
  virtual void on_events(std::uint32_t bits) = 0;
};

}  // namespace yonder::cache
