#pragma once
// Adoption: a heap goes on with the objects that another process left.
//
// The memory has everything that programs can name: objects, and the table that finds
// them. What only the heap needs (free slots, frames by class, the census) is worked
// out again here:
//
//   survey    what is there, and whether it can be true (survey.h); nothing is changed
//   repair    what was under way is finished or undone, each by the same stores in the
//             same order as in a running heap: whoever is killed during a repair leaves
//             what the next survey knows
//   rebuild   frames, blocks, counters; memory between the frames is given back
//
// Objects whose allocation was not acknowledged any more stay: nobody knows their
// pointers, and nobody can tell them from those that somebody knows.
//
// Concurrency: one thread; nobody else uses the heap yet. Lifetime: for one call.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/node/heap.h"
#include "yonder/node/internal/heap_core.h"
#include "yonder/node/internal/survey.h"
#include "yonder/node/internal/write_journal.h"

namespace yonder::node::internal {

class Adoption {
 public:
  // `journal` is the one that was left.
  Adoption(HeapCore& core, WriteJournal& journal) : core_(core), journal_(journal), survey_(core) {}

  // Of a core whose store has the superblocks and whose table is the adopted one.
  // kCorrupt: nothing was changed; kOutOfMemory, kResourceExhausted: what was repaired
  // is repaired, another process can try again.
  Result<AdoptionReport> run();

 private:
  Result<void> repair();
  void finish_writes();
  void settle_moves();
  Result<void> finish_block(const HalfMovedBlock& half);
  void move_object(const FoundSlot& from, const FoundSlot& to);
  // A destination whose copy had begun holds bytes: it is not fresh memory any more.
  void distrust_fresh_slots();
  Result<void> rebuild();
  Result<void> restore_blocks();
  Result<void> restore_frame(FrameId id, const FoundFrame& found, ThreadRecord& books);
  void restore_slots(Frame& frame);

  const FoundFrame& found_at(const FoundSlot& at) const { return survey_.frames.at(at.frame); }
  SlotLayout layout_at(const FoundSlot& at) const;
  void store_word(const FoundSlot& at, HeaderWord word) const;

  HeapCore& core_;
  WriteJournal& journal_;
  Survey survey_;
  AdoptionReport report_;
};

}  // namespace yonder::node::internal
