#pragma once
// PageRanges: ranges of pages, each with a small tag, that threads publish and others look for.
//
// What one does before it looks at the pages of its range, and the other before it looks at the
// ranges, is theirs (paging_pins.h, paging_lends.h); all that counts here is seq_cst, so that there
// is a single order of publishing and looking. Who looks while a place is used again may see a
// range that was never published, made of an end and a beginning: too much, never too little.
//
// Concurrency: any thread; without locks, and usable in a signal handler.
// Lifetime: outlives what is published.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace yonder::heap::internal {

class PageRanges {
 public:
  static constexpr std::size_t kRanges = 256;

  // Pages [first, last). The place, for withdraw(); nothing if all places are taken.
  std::optional<std::size_t> publish(std::size_t first, std::size_t last, std::uint8_t tag = 0) {
    for (std::size_t i = 0; i < kRanges; ++i) {
      Range& range = ranges_[i];
      bool taken = false;
      // relaxed on failure: the place is somebody else's.
      if (!range.taken.compare_exchange_strong(taken, true, std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
        continue;
      }
      raise_top(i + 1);
      range.tag.store(tag, std::memory_order_seq_cst);
      range.first.store(first, std::memory_order_seq_cst);
      range.last.store(last, std::memory_order_seq_cst);  // Until now the range was empty.
      return i;
    }
    return std::nullopt;
  }

  void withdraw(std::size_t place) {
    // release: who sees the range gone finds what was done with its pages.
    ranges_[place].last.store(0, std::memory_order_release);
    ranges_[place].taken.store(false, std::memory_order_release);  // Pairs with publish().
  }

  // The greatest tag of those that have a page of [first, last); nothing if there is none.
  std::optional<std::uint8_t> greatest(std::size_t first, std::size_t last) const {
    std::optional<std::uint8_t> found;
    const std::size_t top = top_.load(std::memory_order_seq_cst);
    for (std::size_t i = 0; i < top; ++i) {
      const std::size_t end = ranges_[i].last.load(std::memory_order_seq_cst);
      if (first >= end || last <= ranges_[i].first.load(std::memory_order_seq_cst)) continue;
      const std::uint8_t tag = ranges_[i].tag.load(std::memory_order_seq_cst);
      if (!found || tag > *found) found = tag;
    }
    return found;
  }

 private:
  struct Range {
    std::atomic<bool> taken{false};
    std::atomic<std::uint8_t> tag{0};
    std::atomic<std::size_t> first{0};
    std::atomic<std::size_t> last{0};  // 0: no range.
  };

  void raise_top(std::size_t top) {
    std::size_t now = top_.load(std::memory_order_relaxed);
    while (now < top && !top_.compare_exchange_weak(now, top, std::memory_order_seq_cst)) {
    }
  }

  // How many places were ever taken: most programs never use more than a few, many none.
  std::atomic<std::size_t> top_{0};
  std::array<Range, kRanges> ranges_;
};

}  // namespace yonder::heap::internal
