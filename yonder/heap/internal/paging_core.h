#pragma once
// PagingCore: the pages of a paged space, as faults and the sweeper share them.
//
// One word per page says where it is (paging_word.h); a counter per region of 512 pages
// lets the sweeper pass over regions in which nothing is resident.
//
// Invariants:
//   I1  A page that is kResident and clean is write-protected and equals its slot; one that
//       is dirty is not protected. Who changes protection has the page kBusy or kChosen.
//   I2  resident() counts the pages that are in the address space or about to be; it is
//       raised before a page is put in, and lowered after it was dropped.
//   I3  Only who has a page kBusy puts it in, drops it, or unprotects it.
//
// Why no write is lost when a page leaves:
//   1. The sweeper makes it kChosen, protects it if it is not (I1), and makes it kLeaving.
//      From here on every write raises SIGBUS in the writer before it changes a byte.
//   2. The sweeper copies it to its slot. All writes that did not fault came before the
//      protection, and so before the copy: the slot has them.
//   3. The sweeper makes it kBusy by compare-and-swap, and drops it.
//   A writer that faults between 1 and 3 makes the page kBusy itself, allows writes, and
//   leaves it kResident and dirty: then the swap in 3 fails, and the page stays, whatever
//   the slot has got; while it is kChosen the writer waits, or the protection could come
//   after it has allowed writes. A writer that faults after 3 waits until it is kFar and brings it
//   back with the bytes of 2. There is no moment at which a write succeeds and the page is
//   dropped: asynchronous write-protection (WP_ASYNC) would have one, between the last
//   look and the drop, which is why it is not used (docs/adr/0030).
//
// Concurrency: any thread; usable in a signal handler. Lifetime: everything it refers to
// outlives it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/heap/internal/paging_forks.h"
#include "yonder/heap/internal/paging_lends.h"
#include "yonder/heap/internal/paging_pins.h"
#include "yonder/heap/internal/paging_word.h"
#include "yonder/heap/slot_store.h"
#include "yonder/os/mapping.h"
#include "yonder/os/userfaultfd.h"

namespace yonder::heap::internal {

struct PagingCounters {
  std::atomic<std::uint64_t> faults{0};         // Of missing pages.
  std::atomic<std::uint64_t> write_faults{0};   // Of protected ones.
  std::atomic<std::uint64_t> fetched_pages{0};  // From the store, with those ahead.
  std::atomic<std::uint64_t> ahead_pages{0};
  std::atomic<std::uint64_t> fresh_pages{0};
  std::atomic<std::uint64_t> left_pages{0};
  std::atomic<std::uint64_t> written_pages{0};  // Of these, by a write.
  std::atomic<std::uint64_t> rescued_pages{0};  // Written while they were leaving.
  std::atomic<std::uint64_t> stalls{0};         // Faults that had to make room themselves.
  std::atomic<std::uint64_t> failures{0};       // Transfers that the store refused or lost.
};

// relaxed: statistics.
inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

class PagingCore {
 public:
  static constexpr std::size_t kRegionPages = 512;

  // Errors: kOutOfMemory.
  static Result<std::unique_ptr<PagingCore>> create(std::span<std::byte> space, const os::Userfaultfd& faults,
                                                    SlotStore& store);

  std::size_t pages() const { return space_.size() / kPageBytes; }
  std::byte* address(std::size_t page) const { return space_.data() + page * kPageBytes; }
  std::span<std::byte> bytes(std::size_t page, std::size_t count) const {
    return space_.subspan(page * kPageBytes, count * kPageBytes);
  }

  // Where the content is in the store, or will be: the page's place, on one of two sides.
  std::uint64_t slot_of(std::size_t page, PageWord word) const {
    return page * kPageBytes + word.side() * space_.size();
  }
  bool has_two_sides() const { return store_.bytes() >= 2 * space_.size(); }

  PageWord word(std::size_t page) const { return PageWord(words()[page].load(std::memory_order_seq_cst)); }
  // seq_cst: the order of claims and pins matters (paging_pins.h).
  bool change(std::size_t page, PageWord from, PageWord to) {
    std::uint32_t expected = from.bits();
    return words()[page].compare_exchange_strong(expected, to.bits(), std::memory_order_seq_cst);
  }
  bool claim(std::size_t page, PageWord from) {
    return change(page, from, from.with_state(PagingState::kBusy));
  }
  // Ends a claim. release: pairs with word(); who sees the state finds the page so.
  void settle(std::size_t page, PageWord to) { words()[page].store(to.bits(), std::memory_order_release); }

  void note_resident(std::size_t page) {
    regions()[page / kRegionPages].fetch_add(1, std::memory_order_relaxed);
  }
  void note_gone(std::size_t page) { regions()[page / kRegionPages].fetch_sub(1, std::memory_order_relaxed); }
  // relaxed: a region that is passed over by mistake is met in the next round.
  bool is_region_empty(std::size_t page) const {
    return regions()[page / kRegionPages].load(std::memory_order_relaxed) == 0;
  }

  std::uint64_t resident() const { return resident_.load(std::memory_order_relaxed); }
  // Raises resident() by up to `count`, but not above `limit`; by how much.
  std::uint64_t reserve_up_to(std::uint64_t count, std::uint64_t limit);
  void release(std::uint64_t count) { resident_.fetch_sub(count, std::memory_order_relaxed); }

  // Time, modulo 256, as pages that have left: PageWord::kTicksPerRound ticks are as many as are
  // resident. relaxed: a page's worth, a guess at the best.
  std::uint8_t tick() const { return tick_.load(std::memory_order_relaxed); }
  void next_tick() { tick_.fetch_add(1, std::memory_order_relaxed); }

  // For a fork: what is far is held; when no child is left, nothing is.
  void hold_far_pages();
  void release_holds();

  const os::Userfaultfd& faults() const { return faults_; }
  SlotStore& store() const { return store_; }
  PagingPins& pins() { return pins_; }
  PagingLends& lends() { return lends_; }
  const PagingLends& lends() const { return lends_; }
  PagingForks& forks() { return forks_; }
  PagingCounters& counters() { return counters_; }

 private:
  PagingCore(std::span<std::byte> space, const os::Userfaultfd& faults, SlotStore& store, os::Mapping words,
             os::Mapping regions)
      : space_(space),
        faults_(faults),
        store_(store),
        words_(std::move(words)),
        regions_(std::move(regions)) {}

  // Fresh pages of the kernel are zero, and a word of zero is kFresh: a large space costs
  // memory for its words only where it is used.
  std::atomic<std::uint32_t>* words() const {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(words_.data());
  }
  std::atomic<std::uint16_t>* regions() const {
    return reinterpret_cast<std::atomic<std::uint16_t>*>(regions_.data());
  }

  const std::span<std::byte> space_;
  const os::Userfaultfd& faults_;
  SlotStore& store_;
  const os::Mapping words_;
  const os::Mapping regions_;
  PagingPins pins_;
  PagingLends lends_;
  PagingForks forks_;
  PagingCounters counters_;
  std::atomic<std::uint64_t> resident_{0};
  std::atomic<std::uint8_t> tick_{0};
};

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace yonder::heap::internal
