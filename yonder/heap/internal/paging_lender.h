#pragma once
// PagingLender: makes a range of pages ready for somebody on the far side.
//
//   word of the page        to be read there                  to be written there
//   ----------------------  --------------------------------  ------------------------------
//   kFresh, slot unused     kFar: the slot is zero            the same
//   kFresh, slot used       zeros are written; kFar           the same
//   kFar                    –                                 –
//   kResident, clean        –                                 dropped; kFar
//   kResident, dirty        protected, written; clean         protected, written, dropped; kFar
//   pinned                  waited for                        waited for
//   kChosen, kLeaving,      waited for, then as what          the same
//   kBusy                   they have become
//
// The range has been published in PagingLends before: so what was made so stays so.
//
// Concurrency: any thread, several at once on different ranges; not in a signal handler.
// Lifetime: the core outlives it.

#include <cstddef>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/heap/internal/paging_core.h"
#include "yonder/heap/internal/paging_drop.h"
#include "yonder/heap/internal/paging_lends.h"

namespace yonder::heap::internal {

class PagingLender {
 public:
  PagingLender(PagingCore& core, PageDropper& dropper) : core_(core), dropper_(dropper) {}

  // Pages [first, last). Errors: kDeadlineExceeded (pinned, or moved by somebody for so long),
  // and those of the store: the pages are then as they were, or as if they had been lent.
  Result<void> prepare(std::size_t first, std::size_t last, LendKind kind, Deadline deadline);

 private:
  // Pages at a time: 1 MiB on the way.
  static constexpr std::size_t kBatch = 256;

  struct Claimed {
    std::size_t page = 0;
    PageWord before;  // kFresh or kResident.
  };
  using Batch = std::vector<Claimed>;

  // Looks at the page until it needs nothing more, or is in the batch.
  Result<void> take(std::size_t page, LendKind kind, Deadline deadline, Batch& batch);
  bool try_take(std::size_t page, LendKind kind, Batch& batch);
  Result<void> send(const Batch& batch);
  Result<void> flush(Batch& batch, LendKind kind);
  void drop(const Batch& batch);
  void give_back(const Batch& batch);

  PagingCore& core_;
  PageDropper& dropper_;
};

}  // namespace yonder::heap::internal
