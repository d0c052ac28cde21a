#pragma once
// PagingSweeper: chooses the pages that leave, and lets them go.
//
// A hand goes round the pages in the order of their addresses (a clock): so the victims of
// one sweep are neighbours, and protecting, writing and dropping them takes few system
// calls. A page that is missed soon after it has left, again and again, is worth more than one
// that was touched once: it comes back with lives, and each visit of the hand takes one. A stock
// kernel does not tell a program which of its pages were read, so coming back is the only
// proof of use that there is; see docs/adr/0030 for what else was considered.
//
//   choose    kResident without lives, not pinned  → kChosen
//   protect   the dirty ones, stretch by stretch   → kLeaving
//   write     the dirty ones, in one vector
//   drop      those that nobody rescued            → kFar
//
// Protecting interrupts every other core that runs the program, once for each call, and that
// is dearer than all the rest. So one call protects a *stretch* of victims, with the gaps
// between them: absent pages, which are claimed until the call is over, so that nobody puts one
// in that would then be protected against its word. Only a page that stays ends a stretch.
//
// If the store fails, all pages stay and the error is the caller's.
//
// Concurrency: one thread at a time (the space has the lock); usable in a signal handler.
// Lifetime: the core outlives it.

#include <sys/uio.h>

#include <array>
#include <cstddef>

#include "yonder/heap/internal/paging_core.h"
#include "yonder/heap/internal/paging_drop.h"

namespace yonder::heap::internal {

class PagingSweeper {
 public:
  // Victims of one sweep, at most: 1 MiB, so that a fault that waits for room waits
  // a millisecond and not ten.
  static constexpr std::size_t kBatch = 256;

  PagingSweeper(PagingCore& core, PageDropper& dropper) : core_(core), dropper_(dropper) {}

  // Lets up to `wanted` pages go; how many did. None if all are pinned or in use just now.
  Result<std::size_t> sweep(std::size_t wanted);
  // Whether the last sweep met pages that children keep from leaving (paging_forks.h).
  bool met_held_pages() const { return met_held_pages_; }
  // Whether the calling thread is in sweep().
  static bool is_sweeping();

 private:
  struct Victim {
    std::size_t page = 0;
    PageWord word;    // As it is while leaving.
    PageWord target;  // With the side that it leaves to.
  };
  // An absent page between two victims, claimed while they are protected.
  struct Gap {
    std::size_t page = 0;
    PageWord before;
  };
  // A longer way from one victim to the next costs more claims than a call does.
  static constexpr std::size_t kMaxGap = 64;
  static constexpr std::size_t kMaxGaps = 1024;  // In one stretch.

  void choose(std::size_t wanted);
  void visit(std::size_t page);
  Result<void> protect();
  // Protects the stretch that begins with victim `first`, which is dirty; the victim after it.
  Result<std::size_t> protect_stretch(std::size_t first);
  // Whether all pages between two victims were claimed.
  bool claim_gap(std::size_t after, std::size_t before);
  void give_back_gaps(std::size_t keep);
  Result<void> write_out();
  std::size_t drop();
  void count_time(std::size_t left);
  void give_back();
  // Calls `act(first victim, count)` for the runs of neighbours on one side among the
  // victims that `wanted` admits.
  template <typename Wanted, typename Act>
  Result<void> for_each_run(Wanted wanted, Act act);

  PagingCore& core_;
  PageDropper& dropper_;
  std::size_t hand_ = 0;
  std::size_t left_in_tick_ = 0;
  std::size_t victim_count_ = 0;
  bool met_held_pages_ = false;
  std::size_t gap_count_ = 0;
  std::array<Victim, kBatch> victims_;
  std::array<Gap, kMaxGaps> gaps_;
  std::array<Transfer, kBatch> transfers_;
  std::array<iovec, kBatch> ranges_;
};

}  // namespace yonder::heap::internal
