#pragma once
// Membarrier: one thread pays for a memory barrier on all of them.
//
// issue() returns after every running thread it covers has executed a full
// barrier. So a hot path can do with a plain store and a compiler barrier where
// it would need a fence, and the rare other side issues this instead: 0.5 µs
// when nothing else runs, 10 to 13 µs when another core must be interrupted, so
// batch the work behind one issue. sync/hazard.h is the main user.
//
// Two scopes: kPrivate covers the threads of this process; kGlobal covers the
// threads of every process on this machine that has created a kGlobal one.
//
// Concurrency: any thread. Lifetime: a value; registration lasts as long as the
// process (until exec) and cannot be undone.

#include <cstdint>

#include "yonder/base/result.h"

namespace yonder::os {

class Membarrier {
 public:
  enum class Scope : std::uint8_t { kPrivate, kGlobal };

  // Whether the kernel has the expedited form of this scope.
  static bool available(Scope scope);
  // Registers this process. Errors: kUnsupported (use fences on the fast path
  // instead), kOutOfMemory, kPermissionDenied (a system call filter).
  static Result<Membarrier> create(Scope scope);

  // Every covered thread has passed a full barrier between call and return.
  void issue() const;

 private:
  explicit Membarrier(int command) : command_(command) {}
  int command_;
};

}  // namespace yonder::os
