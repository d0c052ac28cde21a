#pragma once
// FaultRouter: which segment a faulting address belongs to, and who answers.
//
// A touch of a page that has not arrived yet raises SIGBUS in the thread that touched it
// (userfaultfd's SIGBUS feature): the router finds the segment's FaultServer by the slot
// of the address and lets it bring the page; the access is then repeated. A touch of a
// segment that has left raises SIGSEGV: the router prints the notice that the fence left
// (which segment, where it went), and the signal takes its course. A touch of a page that
// is lost with its source continues at the thread's recovery point, if it has one.
//
//   slot's server | fault                       | set_server(s)   | remove_server
//   --------------+-----------------------------+-----------------+-----------------------
//   none          | repeated a few times, then  | s               | nothing to do
//                 | passed on                   |                 |
//   s             | s.serve_fault(address)      | – (checked)     | none, and no thread is
//                 |                             |                 | inside s any more
//
// Why a server may be destroyed after remove_server(): a thread in the handler first
// counts itself in (seq_cst), then loads the pointer; remove_server() first clears the
// pointer (seq_cst), then waits until the count is zero. In the single order of the four
// operations either the thread's load comes after the clearing, and it sees none, or its
// counting comes before the waiter's look, and it is waited for.
//
// Concurrency: set, remove and notices from any thread, for one slot one at a time;
// faults from everywhere. Lifetime: one per process, opened and closed by the arena.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/segment/ids.h"

namespace yonder::segment::internal {

enum class FaultAnswer : std::uint8_t {
  kServed,     // the access can be repeated
  kNotOurs,    // not a page of the segment
  kNotPulled,  // the page was not pulled, and the application wanted to do that itself
  kLost,       // the page is gone with its source
};

class FaultServer {
 public:
  virtual ~FaultServer() = default;
  // In the thread that touched `address`, inside a signal handler that interrupted
  // nothing but that access.
  virtual FaultAnswer serve_fault(std::uintptr_t address) noexcept = 0;
};

class FaultRouter {
 public:
  // kAlreadyExists if it is open. Installs the two hooks.
  static Result<void> open(std::uintptr_t base, std::uint32_t slots);
  static void close();

  static void set_server(SlotRange range, FaultServer& server);
  static void remove_server(SlotRange range);
  // Brings the slots' entries into the caches: set_server() comes soon, and in a hurry.
  static void warm(SlotRange range);

  // What a late access to the slots is told, before the signal takes its course.
  static void set_notice(SlotRange range, SegmentId segment, ProcessId owner, Epoch epoch);
  static void remove_notice(SlotRange range);
};

}  // namespace yonder::segment::internal
