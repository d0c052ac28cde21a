#pragma once
// What an endpoint has reserved in its completion queue, and how much is in use.
//
// A request counts from post() until its completion is *polled* (or, unsignalled,
// known to have succeeded), so the rings of the queue, sized by the sum of all
// reservations, cannot overflow.
//
// Concurrency: the thread of the queue. Lifetime: owned by the queue, and freed
// when its endpoint is closed and all completions are polled.

#include <cstdint>

#include "yonder/fabric/types.h"

namespace yonder::fabric::tcp {

struct Account {
  std::uint32_t depth = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t requests = 0;  // At most depth.
  std::uint32_t receives = 0;  // At most receive_depth.
  bool closed = false;

  bool is_settled() const { return closed && requests == 0 && receives == 0; }
};

// A completion on its way to the application.
struct Finished {
  Completion completion;
  // Null for receives of a shared queue: they count nowhere.
  Account* account = nullptr;
};

}  // namespace yonder::fabric::tcp
