#pragma once
// An errand: something slow that the service thread carries on in small steps,
// next to serving requests: accepting, shaking hands, dialling again.
//
// Concurrency: step() and the getters run under the service's lock.
// Lifetime: owned by the service until step() says that it is over.

#include "yonder/base/time.h"
#include "yonder/fabric/tcp/internal/timer.h"
#include "yonder/os/fd.h"

namespace yonder::fabric::tcp {

// Lets an errand take its descriptor out of the service's epoll before it gives
// the socket to somebody else.
class Watch {
 public:
  virtual void forget(const os::Fd& fd) = 0;

 protected:
  ~Watch() = default;
};

class Errand {
 public:
  virtual ~Errand() = default;
  // Does what can be done without blocking. False: over, drop it.
  virtual bool step(Instant now) = 0;
  // What to wait for until the next step: a descriptor (null: none) ...
  virtual const os::Fd* fd() const = 0;
  virtual std::uint32_t interest() const = 0;
  // ... or an instant.
  virtual Instant next_timer() const = 0;
};

}  // namespace yonder::fabric::tcp
