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

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace yonder::heap::internal {

class PagingPins {
 public:
  // At most so many system calls at a time.
  static constexpr std::size_t kPins = 256;

  // Pages [first, last). Nothing if all places are taken.
  std::optional<std::size_t> publish(std::size_t first, std::size_t last) {
    for (std::size_t i = 0; i < kPins; ++i) {
      bool taken = false;
      // relaxed on failure: the place is somebody else's.
      if (!pins_[i].taken.compare_exchange_strong(taken, true, std::memory_order_acquire,
                                                  std::memory_order_relaxed)) {
        continue;
      }
      raise_top(i + 1);
      pins_[i].first.store(first, std::memory_order_seq_cst);
      pins_[i].last.store(last, std::memory_order_seq_cst);  // Until now the range was empty.
      return i;
    }
    return std::nullopt;
  }

  void withdraw(std::size_t place) {
    pins_[place].last.store(0, std::memory_order_release);
    pins_[place].taken.store(false, std::memory_order_release);  // Pairs with publish().
  }

  bool covers(std::size_t page) const {
    const std::size_t top = top_.load(std::memory_order_seq_cst);
    for (std::size_t i = 0; i < top; ++i) {
      const std::size_t last = pins_[i].last.load(std::memory_order_seq_cst);
      if (page < last && page >= pins_[i].first.load(std::memory_order_seq_cst)) return true;
    }
    return false;
  }

 private:
  struct Pin {
    std::atomic<bool> taken{false};
    std::atomic<std::size_t> first{0};
    std::atomic<std::size_t> last{0};  // 0: no range.
  };

  // How many places were ever taken: most programs never use more than a few.
  void raise_top(std::size_t top) {
    std::size_t now = top_.load(std::memory_order_relaxed);
    while (now < top && !top_.compare_exchange_weak(now, top, std::memory_order_seq_cst)) {
    }
  }

  std::atomic<std::size_t> top_{0};
  std::array<Pin, kPins> pins_;
};

}  // namespace yonder::heap::internal
