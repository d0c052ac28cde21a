#pragma once
// PagingPins: ranges of pages that must not leave now.
//
// A system call that is given non-resident memory fails with EFAULT (userfaultfd's SIGBUS
// feature serves user-mode faults only), so whoever makes one first publishes the range
// here, then brings its pages.
//
// Why a pinned page stays: the pinner first publishes its range (seq_cst), then looks at
// the words of its pages; the sweeper first makes a page kChosen (seq_cst), then looks at
// the ranges. In the single order of these either the pinner sees kChosen or what follows,
// and rescues the page, or the sweeper sees the range, and gives the page back.
//
// Concurrency: any thread; usable in a signal handler. Lifetime: outlives its pins.

#include <cstddef>
#include <optional>

#include "yonder/heap/internal/page_ranges.h"

namespace yonder::heap::internal {

class PagingPins {
 public:
  // Pages [first, last). Nothing if PageRanges::kRanges system calls have pins.
  std::optional<std::size_t> publish(std::size_t first, std::size_t last) {
    return ranges_.publish(first, last);
  }
  void withdraw(std::size_t place) { ranges_.withdraw(place); }
  bool covers(std::size_t page) const { return ranges_.greatest(page, page + 1).has_value(); }

 private:
  PageRanges ranges_;
};

}  // namespace yonder::heap::internal
