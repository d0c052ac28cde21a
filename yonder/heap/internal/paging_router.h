#pragma once
// PagingRouter: from a SIGBUS to the paged space that the address belongs to.
//
// With userfaultfd's SIGBUS feature, touching a page that is not there (or writing one
// that is protected) raises SIGBUS in the thread that did it. The router asks the space
// of that address to make the access possible; the access is then repeated. What belongs
// to no space, and what a space cannot serve, goes to whoever handled SIGBUS before.
//
// The other signals wait while a fault is served: a handler of the program could touch
// far memory itself, in the middle of a service that holds a lock.
//
// Why a space may be destroyed after remove(): a thread in the handler first counts itself
// in (seq_cst), then loads the pointer; remove() first clears the pointer (seq_cst), then
// waits until the count is zero. Either the load comes later and sees nothing, or the
// count is seen.
//
// Concurrency: any thread. Lifetime: the hook is there while there is a space.

#include <cstdint>
#include <span>

#include "yonder/base/result.h"

namespace yonder::heap::internal {

class PagingServer {
 public:
  virtual ~PagingServer() = default;
  // In the thread that touched `address`, inside the signal handler. False: the access
  // cannot be made possible, and the reason has been told.
  virtual bool serve_fault(std::uintptr_t address, bool write) noexcept = 0;
};

class PagingRouter {
 public:
  static constexpr std::size_t kSpaces = 16;

  // Errors: kResourceExhausted (kSpaces), kAlreadyExists (another part of this process
  // has taken the hook of SIGBUS).
  static Result<void> add(std::span<std::byte> range, PagingServer& server);
  static void remove(PagingServer& server);
};

}  // namespace yonder::heap::internal
