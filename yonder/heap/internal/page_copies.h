#pragma once
// Copies of a few absent pages, of the thread that read them last.
//
// An object that comes in alone costs a round trip, and its whole page hardly costs more: what a
// network takes its time for is the way, not the bytes. So where the neighbours of an object are
// likely to be asked for next, its page is read into a copy, the object is placed from there, and
// the neighbours follow without the network: read by page, kept by object. No frame is spent on
// what is not used.
//
// When a page is read: the second time in a row that one of its objects is missed, or at once if
// copies have been worth it lately (each served kWorthIt more objects on average, which is more
// than it costs). Now and then one is tried in any case, so that a change of the program is noticed;
// the more seldom, the more trials were in vain.
//
// A copy is right as long as the page's stay lasts (absent_stay.h); no copy is made of the page that is
// just being filled on the node. The caller holds the page while it looks and copies.
//
// Concurrency: of its thread. Lifetime: with the thread's state; memory is taken at the first copy.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "yonder/heap/internal/absent_stay.h"
#include "yonder/heap/slot_store.h"

namespace yonder::heap::internal {

class PageCopies {
 public:
  static constexpr std::size_t kCopies = 4;
  static constexpr std::size_t kBytes = kCopies * kPageBytes;

  // The bytes of the page, or null.
  const std::byte* find(std::uint32_t page, PageEntry entry, std::uint64_t barriers) {
    for (Copy& copy : copies_) {
      if (copy.page != page) continue;
      if (!copy.stay.is_still(entry, barriers)) break;
      ++copy.served;
      return bytes_of(copy);
    }
    return nullptr;
  }

  // Whether to read the whole page for an object of it that is missed.
  bool is_worth_it(std::uint32_t page) {
    const bool again = page == last_missed_;
    last_missed_ = page;
    if (again || served_on_average_ >= kWorthIt) return true;
    if (++misses_ < trial_after_) return false;
    misses_ = 0;
    return true;
  }

  // Room for a copy, which ends the oldest one. Call keep() when the bytes are there.
  std::byte* next_room() {
    if (memory_ == nullptr) memory_ = std::make_unique<std::byte[]>(kBytes);
    oldest_ = (oldest_ + 1) % kCopies;
    Copy& copy = copies_[oldest_];
    if (copy.page != 0) judge(copy);
    copy = {};
    return bytes_of(copy);
  }
  // `barriers`: their number before the page was read.
  void keep(std::uint32_t page, PageEntry entry, std::uint64_t barriers) {
    copies_[oldest_] = {.page = page, .served = 0, .stay = {entry, barriers}};
  }

 private:
  static constexpr double kWorthIt = 0.3;
  static constexpr double kWeight = 1.0 / 32;
  static constexpr std::uint32_t kFirstTrial = 16;  // Misses.
  static constexpr std::uint32_t kLastTrial = 256;

  struct Copy {
    std::uint32_t page = 0;    // 0: none.
    std::uint32_t served = 0;  // Objects after the first.
    AbsentStay stay;
  };

  void judge(const Copy& copy) {
    served_on_average_ += kWeight * (copy.served - served_on_average_);
    trial_after_ = copy.served != 0 ? kFirstTrial : std::min(trial_after_ * 2, kLastTrial);
  }
  std::byte* bytes_of(const Copy& copy) const {
    return memory_.get() + static_cast<std::size_t>(&copy - copies_.data()) * kPageBytes;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::array<Copy, kCopies> copies_;
  std::size_t oldest_ = 0;
  std::uint32_t last_missed_ = 0;
  std::uint32_t misses_ = 0;  // Since the last trial.
  std::uint32_t trial_after_ = kFirstTrial;
  double served_on_average_ = 0;
};

}  // namespace yonder::heap::internal
