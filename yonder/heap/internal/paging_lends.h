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

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace yonder::heap::internal {

enum class LendKind : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2 };

class PagingLends {
 public:
  // Ranges of all calls under way.
  static constexpr std::size_t kLends = 256;

  // Pages [first, last). Nothing if all places are taken.
  std::optional<std::size_t> publish(std::size_t first, std::size_t last, LendKind kind) {
    for (std::size_t i = 0; i < kLends; ++i) {
      bool taken = false;
      // relaxed on failure: the place is somebody else's.
      if (!lends_[i].taken.compare_exchange_strong(taken, true, std::memory_order_acquire,
                                                   std::memory_order_relaxed)) {
        continue;
      }
      raise_top(i + 1);
      lends_[i].kind.store(kind, std::memory_order_seq_cst);
      lends_[i].first.store(first, std::memory_order_seq_cst);
      lends_[i].last.store(last, std::memory_order_seq_cst);  // Until now the range was empty.
      return i;
    }
    return std::nullopt;
  }

  void withdraw(std::size_t place) {
    // release: who sees the range gone finds in the store what the call has left there.
    lends_[place].last.store(0, std::memory_order_release);
    lends_[place].taken.store(false, std::memory_order_release);  // Pairs with publish().
  }

  // The stronger one if there are several.
  LendKind kind_of(std::size_t page) const { return kind_of(page, page + 1); }
  LendKind kind_of(std::size_t first, std::size_t last) const {
    LendKind kind = LendKind::kNone;
    const std::size_t top = top_.load(std::memory_order_seq_cst);
    for (std::size_t i = 0; i < top; ++i) {
      const std::size_t end = lends_[i].last.load(std::memory_order_seq_cst);
      if (first >= end || last <= lends_[i].first.load(std::memory_order_seq_cst)) continue;
      const LendKind this_one = lends_[i].kind.load(std::memory_order_seq_cst);
      if (this_one > kind) kind = this_one;
    }
    return kind;
  }

 private:
  struct Place {
    std::atomic<bool> taken{false};
    std::atomic<LendKind> kind{LendKind::kNone};
    std::atomic<std::size_t> first{0};
    std::atomic<std::size_t> last{0};  // 0: no range.
  };

  void raise_top(std::size_t top) {
    std::size_t now = top_.load(std::memory_order_relaxed);
    while (now < top && !top_.compare_exchange_weak(now, top, std::memory_order_seq_cst)) {
    }
  }

  // How many places were ever taken: 0 in a space that lends nothing.
  std::atomic<std::size_t> top_{0};
  std::array<Place, kLends> lends_;
};

}  // namespace yonder::heap::internal
