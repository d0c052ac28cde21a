#pragma once
// PagingIngress: makes pages of a space resident.
//
// A page is claimed (kBusy), read into a staging buffer (unless the store is memory of this
// process: nobody writes the slot of a claimed page) or taken from zeros, and put in by one system
// call together with its neighbours. It is put in protected if nothing wants to
// write it: then it is known to be clean until a write faults. A page that was written in
// its last stays is put in writable and counts as dirty (its habit), which saves that
// fault and may cost a needless write; every eighth time it has to prove itself.
//
// What is lent to the far side (paging_lends.h) is waited for: for as long as that takes,
// which the call it is lent for bounds.
//
// Concurrency: any thread; usable in a signal handler. Lifetime: the others outlive it.

#include <cstddef>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/heap/internal/paging_core.h"
#include "yonder/heap/internal/paging_evictor.h"
#include "yonder/heap/internal/paging_staging.h"

namespace yonder::heap::internal {

class PagingIngress {
 public:
  PagingIngress(PagingCore& core, PagingEvictor& evictor, PagingStaging& staging)
      : core_(core), evictor_(evictor), staging_(staging) {}

  struct Wish {
    std::size_t page = 0;
    std::size_t ahead = 1;  // This page and so many less one after it, if they are as far away.
    bool write = false;     // The page shall be writable.
    bool stay = false;      // A page that is leaving is rescued, even from who only reads it.
  };
  // Returns when an access to the page can work, and how many pages came; 0: it was there.
  // Errors: kDeadlineExceeded, and those of the store when the deadline has passed.
  Result<std::size_t> bring(const Wish& wish, Deadline deadline);

  // Fills fresh pages from `first` on, at most `limit`, if there is room for them now. How
  // many pages it looked at: those that are not fresh are passed over.
  Result<std::size_t> populate(std::size_t first, std::size_t limit);

 private:
  struct Run {
    std::size_t first = 0;
    std::size_t count = 0;
    PagingState from = PagingState::kFresh;  // What all of them were.
    bool lent = false;                       // For reading: they stay clean.
  };

  // One attempt; 0: look at the page again.
  Result<std::size_t> bring_missing(const Wish& wish, PageWord word, Deadline deadline);
  // Requires that `word` is kFresh or kFar.
  Run claim_run(std::size_t first, PageWord word, std::size_t limit);
  Result<void> fill(Run run, bool write);
  // These take out of `run` what has been put in.
  Result<void> fill_fresh(Run& run, bool write);
  Result<void> fill_far(Run& run, bool write);
  void count_fetched(const Run& run);
  Result<void> install(Run& run, const std::byte* source, bool write);
  void give_back(const Run& run);
  bool allow_write(std::size_t page, PageWord word);
  // Whether a lend keeps the wish from being fulfilled as long as it lasts.
  bool is_lent_away(const Wish& wish, PagingState state) const;
  PageWord arrived(PageWord busy, const Run& run, bool write) const;

  PagingCore& core_;
  PagingEvictor& evictor_;
  PagingStaging& staging_;
};

}  // namespace yonder::heap::internal
