#pragma once
// Arena: the range of addresses that is the same in every process of a cluster.
//
//   YONDER_TRY(arena, Arena::reserve({}));
//
// A segment is mapped at the same address wherever it is, so that pointers inside it
// stay valid when it moves. The kernel places programs, libraries and stacks at random
// addresses; the arena lies where it never puts anything by itself, and reserve() says
// kAlreadyExists instead of replacing what somebody else has put there.
//
// Concurrency: functions on different slots from any thread; on the same slots one
// thread at a time. One arena at a time in a process: it also routes the faults of its
// segments (internal/fault_router.h).
// Lifetime: outlives the agents that use it. Unmaps everything at the end.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "yonder/base/result.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/segment/ids.h"

namespace yonder::segment {

struct ArenaOptions {
  // 0: the default. All processes of a cluster need the same two values.
  std::uintptr_t base = 0;  // a multiple of kSlotBytes
  std::uint32_t slots = 0;  // of 1 GiB of addresses each
};

class Arena {
 public:
  // kAlreadyExists: something is mapped there, or this process has an arena.
  // kInvalidArgument: base is not aligned. kOutOfMemory: no such address space.
  static Result<std::unique_ptr<Arena>> reserve(const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::uintptr_t base() const { return reinterpret_cast<std::uintptr_t>(memory_.data()); }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(memory_.size() / kSlotBytes); }
  bool contains(SlotRange range) const;
  // Requires contains() (checked), as do all below.
  std::byte* address_of(SlotRange range) const;

  // Maps a file over whole slots; what lies beyond its end cannot be touched. Children made
  // by fork do not get it.
  Result<void> map(SlotRange range, const os::Memfd& file);
  // Takes the pages away, in constant time: any later access to the slots faults.
  // `room` comes from make_room(). Destroying the result frees the page tables, which
  // takes time in proportion: not where somebody waits. What is left is a hole, to be closed by
  // map() or, when nobody waits any more, by keep().
  Result<os::Mapping> fence(SlotRange range, os::Mapping room);
  static Result<os::Mapping> make_room(SlotRange range);
  // Does what fence() does, with a page of nobody's, and looks at the slots' mapping without
  // changing it. The kernel's way is long, and cold when it is gone once in a while: right after
  // a rehearsal a fence takes half the time. It also frees a page table, which makes the kernel
  // forget the cores that this process has left: it remembers each on which a thread of it has run,
  // and a fence would interrupt them all, 10 us each, once per slot.
  void rehearse_fence(SlotRange range);
  // Makes fenced slots a reservation again. Nothing if they are in use again by then.
  Result<void> keep(SlotRange range);
  // Back to a reservation.
  Result<void> clear(SlotRange range);

 private:
  explicit Arena(os::Mapping memory) : memory_(std::move(memory)) {}
  std::size_t offset_of(SlotRange range) const;

  os::Mapping memory_;
};

}  // namespace yonder::segment
