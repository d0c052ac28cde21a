#pragma once
// What a thread has of the heap: its hazard slots, the logs it places objects in, what it saw
// of streams, and its counters.
//
// Made at the thread's first use of a far pointer, given back when it ends.
//
// Concurrency: of its thread, but for the counters, which anybody may read.
// Lifetime: ends with its thread (or Heap::leave_thread); holds end before it (checked).

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "yonder/heap/internal/early_objects.h"
#include "yonder/heap/internal/page_copies.h"
#include "yonder/heap/internal/tables.h"
#include "yonder/sync/hazard.h"

namespace yonder::heap::internal {

enum class Access : std::uint8_t { kRead, kWrite };

enum class Count : std::uint8_t {
  kHits,
  kPageIns,
  kObjectIns,
  kPageCopies,
  kObjectsFromCopies,
  kObjectsAhead,
  kObjectsAheadUsed,
  kBytesIn,
  kBytesWanted,
  kReadAhead,
  kReadAheadUsed,
  kPagesWritten,
  kPagesDropped,
  kObjectsWritten,
  kFlipsToPage,
  kFlipsToObject,
  kEvacuatedPages,
  kHealed,
  kStalls,
  kEgressNs,
  kNumber
};

// Written by one thread (or under one lock), read by any.
class Counters {
 public:
  void add(Count what, std::uint64_t by = 1) {
    std::atomic<std::uint64_t>& value = values_[static_cast<std::size_t>(what)];
    // relaxed, and no locked add: one writer; readers want an estimate.
    value.store(value.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  void add(const Counters& others) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      add(static_cast<Count>(i), others.get(static_cast<Count>(i)));
  }
  std::uint64_t get(Count what) const {
    return values_[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Count::kNumber)> values_{};
};

// Room for one object, in a log.
struct Placed {
  PointerWord word;
  std::byte* bytes = nullptr;
  std::uint32_t frame = 0;
};

// A page that is being filled from its beginning; its frame is pinned meanwhile.
struct Log {
  std::uint32_t page = 0;  // 0: none is open.
  std::uint32_t frame = 0;
  std::uint32_t used = 0;   // Granules.
  std::uint64_t stamp = 0;  // Of the page's stay: what is placed counts as used (start_log).
  bool fixed = false;       // Its pages are (page_entry.h).

  bool has_room(std::uint32_t granules) const { return page != 0 && used + granules <= kGranulesPerPage; }
  // Requires room.
  Placed place(std::uint32_t bytes) {
    const Placed placed{.word = PointerWord::make(page, used, bytes).stamped(stamp),
                        .bytes = g_view.frame(frame) + std::size_t{used} * kGranuleBytes,
                        .frame = frame};
    used += granules_of(bytes);
    return placed;
  }
};

// Pages a thread asked for one after the other, in equal steps.
struct Stream {
  std::uint32_t last_page = 0;
  std::int32_t stride = 0;
  std::uint32_t run = 0;      // How many steps were equal.
  std::uint32_t window = 0;   // How many pages to read ahead.
  std::uint32_t ahead = 0;    // The last page that was asked for.
  std::uint32_t trigger = 0;  // When this page is touched, the next window is due.
};

using HazardSlot = sync::HazardDomain<>::Slot;

// Keeps one page local: a hazard slot, or, when the thread has used up its slots, a pin. One word:
// the address of the slot, or of the frame's info plus one; 0: nothing. Guards keep it as a plain
// number, so that it stays in a register.
using HoldWord = std::uintptr_t;

inline HoldWord hold_of(HazardSlot* slot) { return reinterpret_cast<HoldWord>(slot); }
inline HoldWord hold_of(FrameInfo* pinned) { return reinterpret_cast<HoldWord>(pinned) + 1; }

inline void end_hold(HoldWord hold) {
  if (hold == 0) return;
  if ((hold & 1) == 0) [[likely]] {
    // release: pairs with the egress's scan; our use of the page is over.
    reinterpret_cast<HazardSlot*>(hold)->store(0, std::memory_order_release);
  } else {
    reinterpret_cast<FrameInfo*>(hold - 1)->pins.fetch_sub(1, std::memory_order_release);
  }
}

// The same with an owner. Movable; ends in the thread that made it.
class PageHold {
 public:
  PageHold() = default;
  explicit PageHold(HoldWord word) : word_(word) {}
  PageHold(PageHold&& other) noexcept : word_(other.release()) {}
  PageHold& operator=(PageHold&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~PageHold() { end_hold(word_); }

  void reset(HoldWord word = 0) { end_hold(std::exchange(word_, word)); }
  HoldWord release() { return std::exchange(word_, 0); }

 private:
  HoldWord word_ = 0;
};

// An object that is local, and what keeps it so.
struct Entered {
  std::byte* object = nullptr;
  HoldWord hold = 0;
  std::uint32_t bytes = 0;  // Of the object.
};

struct ThreadState {
  ThreadState(sync::HazardThread<> holds_of, sync::HazardThread<> scratch_of)
      : holds(std::move(holds_of)), scratch(std::move(scratch_of)) {}

  sync::HazardThread<> holds;    // Of guards.
  sync::HazardThread<> scratch;  // Of the runtime itself: it needs a slot even when guards have them all.
  Log fresh;                     // New objects…
  Log fixed{.fixed = true};      // …those that never move…
  Log fetched;                   // …and those that came in alone: used together, placed together.
  Stream stream;
  PageCopies copies;
  EarlyObjects early;
  std::uint32_t freed = 0;  // Objects.
  Counters counters;
};

// The calling thread's; null before its first use.
inline constinit thread_local ThreadState* t_thread = nullptr;

// Its hazard slots. Before its first use, slots of which none is free: so that the barrier needs
// no question of its own.
inline constinit HazardSlot g_no_slots[4] = {1, 1, 1, 1};
inline constinit thread_local HazardSlot* t_slots = g_no_slots;

}  // namespace yonder::heap::internal
