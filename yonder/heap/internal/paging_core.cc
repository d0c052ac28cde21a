#include "yonder/heap/internal/paging_core.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace yonder::heap::internal {

Result<std::unique_ptr<PagingCore>> PagingCore::create(std::span<std::byte> space,
                                                       const os::Userfaultfd& faults, SlotStore& store) {
  const std::size_t pages = space.size() / kPageBytes;
  const std::size_t regions = (pages + kRegionPages - 1) / kRegionPages;
  YONDER_TRY(words, os::Mapping::anonymous({.bytes = pages * sizeof(std::uint32_t)}));
  YONDER_TRY(counts, os::Mapping::anonymous({.bytes = regions * sizeof(std::uint16_t)}));
  return std::unique_ptr<PagingCore>(
      new PagingCore(space, faults, store, std::move(words), std::move(counts)));
}

std::uint64_t PagingCore::reserve_up_to(std::uint64_t count, std::uint64_t limit) {
  // relaxed: a count; what it counts is ordered by the words.
  std::uint64_t now = resident_.load(std::memory_order_relaxed);
  while (now < limit) {
    const std::uint64_t some = std::min(count, limit - now);
    if (resident_.compare_exchange_weak(now, now + some, std::memory_order_relaxed)) return some;
  }
  return 0;
}

void PagingCore::hold_far_pages() {
  for (std::size_t page = 0; page < pages(); ++page) {
    // Nobody is inside: this is the only change.
    const PageWord now = word(page);
    if (now.state() == PagingState::kFar) settle(page, now.with_held(true));
  }
}

void PagingCore::release_holds() {
  for (std::size_t page = 0; page < pages(); ++page) {
    // Who is moving the page has its next word in mind: wait until it rests.
    for (PageWord now = word(page); now.held() || now.other_held(); now = word(page)) {
      const bool rests = now.state() == PagingState::kFresh || now.state() == PagingState::kFar ||
                         now.state() == PagingState::kResident;
      if (rests && change(page, now, now.with_held(false).with_other_held(false))) break;
      std::this_thread::yield();
    }
  }
}

}  // namespace yonder::heap::internal
