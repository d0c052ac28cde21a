#pragma once
// PagingLends: ranges of pages that somebody else works on now, on the far side (the offload
// bit of Atlas, section 4.3, as a range).
//
//   lent for    the client may                 in the address space      in the store
//   ----------  -----------------------------  ------------------------  -----------------
//   reading     read; a write waits            nothing, or clean and     what they contain
//                                              write-protected
//   writing     nothing: every access waits    nothing                   changing
//
// Invariants, from when a lend is *prepared* (paging_lender.h) until it is withdrawn:
//   L1  No page that is lent for writing is resident, or becomes so.
//   L2  No page that is lent for reading is dirty, fresh, or becomes so.
//
// Why: the lender first publishes the range (seq_cst), then looks at the words of its pages
// and makes each as L1 or L2 wants it; who brings a page or makes one writable first claims
// it (seq_cst), then looks at the ranges. In the single order of these either the lender sees
// the claim, and waits for what comes of it, or the claimer sees the range, and gives the
// claim back. A page that is leaving is not claimed by its writer if it is lent; if the range
// came after that look, the lender finds the page as the writer has left it.
//
// Concurrency: any thread; kind_of() is usable in a signal handler. Lifetime: outlives its lends.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "yonder/heap/internal/page_ranges.h"

namespace yonder::heap::internal {

enum class LendKind : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2 };

class PagingLends {
 public:
  // Ranges of all calls under way.
  static constexpr std::size_t kLends = PageRanges::kRanges;

  // Pages [first, last). Nothing if all places are taken.
  std::optional<std::size_t> publish(std::size_t first, std::size_t last, LendKind kind) {
    return ranges_.publish(first, last, static_cast<std::uint8_t>(kind));
  }
  void withdraw(std::size_t place) { ranges_.withdraw(place); }

  // The stronger one if there are several.
  LendKind kind_of(std::size_t page) const { return kind_of(page, page + 1); }
  LendKind kind_of(std::size_t first, std::size_t last) const {
    return static_cast<LendKind>(ranges_.greatest(first, last).value_or(0));
  }

 private:
  PageRanges ranges_;
};

}  // namespace yonder::heap::internal
