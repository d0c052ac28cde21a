#pragma once
// The barrier: what every dereference of a far pointer does.
//
//   1  read the pointer word                  4  read the page's entry: local (H1)
//   2  publish its page in a hazard slot      5  read the word again: still the same (H2)
//   3  (compiler fence)                       6  same stamp, referenced, and dirty for a write
//
// Plain loads and one plain store, and no other table than the entries; when any check fails,
// the slow path (runtime.h) sorts out what is the matter and does the rest. Setting cards and
// stamps, the reference and the dirty bit is rare: once per object or page and stay.
//
// Concurrency: any thread. Lifetime: a heap exists.

#include <atomic>
#include <cstdint>

#include "yonder/heap/internal/tables.h"
#include "yonder/heap/internal/thread_state.h"
#include "yonder/sync/atomics.h"

namespace yonder::heap::internal {

// A free hazard slot of the calling thread, or null. Four are tried here; deeper nests are the slow
// path's. (A hint that says which is free would be a chain of stores and loads from one dereference
// to the next; what is stored in slots is only compared.)
[[gnu::always_inline]] inline HazardSlot* free_slot() {
  HazardSlot* const slots = t_slots;
  // relaxed: our own.
  const auto is_free = [](const HazardSlot& slot) { return slot.load(std::memory_order_relaxed) == 0; };
  if (is_free(slots[0])) return slots;
  if (is_free(slots[1])) return slots + 1;
  if (is_free(slots[2])) return slots + 2;
  if (is_free(slots[3])) return slots + 3;
  return nullptr;
}

// False: the slow path must decide; nothing is held then.
template <Access kAccess>
[[gnu::always_inline]] inline bool enter_fast(std::atomic<std::uint64_t>& at, Entered& entered) {
  HazardSlot* const slot = free_slot();
  if (slot == nullptr) [[unlikely]]
    return false;
  // relaxed: only a guess; the second load decides. Null is page 0, which is never local.
  const PointerWord word{at.load(std::memory_order_relaxed)};
  slot->store(word.page(), std::memory_order_release);
  sync::StdAtomics::compiler_fence();
  // acquire: pairs with set_entry(); the frame's bytes are complete.
  const PageEntry entry{g_view.entries[word.page()].load(std::memory_order_acquire)};
  // One comparison: local, referenced, dirty if we write, and the stamp of the word.
  constexpr auto kReady = static_cast<std::uint32_t>(PageEntry::kIsLocal | PageEntry::kReferenced |
                                                     (kAccess == Access::kWrite ? PageEntry::kDirty : 0));
  constexpr auto kMask = static_cast<std::uint32_t>(kReady | PageEntry::kStampMask);
  const auto difference = static_cast<std::uint32_t>(entry.bits ^ word.bits);
  // acquire: pairs with the swap that moved the object here; its bytes are complete.
  if ((difference & kMask) != kReady || at.load(std::memory_order_acquire) != word.bits) [[unlikely]] {
    slot->store(0, std::memory_order_release);
    return false;
  }
  // The way of the address is: word, entry, object; the rest of this function is beside it.
  entered = {g_view.frame(entry.index()) + word.place(), hold_of(slot), word.bytes()};
  return true;
}

// The slow path; ends the program, or calls HeapOptions::on_lost, on an error.
Entered enter_slow(std::atomic<std::uint64_t>& at, Access access);
// As a result: what try_read() and try_write() return.
Result<Entered> try_enter_slow(std::atomic<std::uint64_t>& at, Access access);

template <Access kAccess>
[[gnu::always_inline]] inline Entered enter(std::atomic<std::uint64_t>& at) {
  Entered entered;
  if (!enter_fast<kAccess>(at, entered)) [[unlikely]]
    entered = enter_slow(at, kAccess);
  if (entered.hold == 0) __builtin_unreachable();  // So that guards that are not moved need not ask.
  return entered;
}

// Turns the hold on a local object into a pin: one that lasts, and may end in any thread.
HoldWord pinned(const Entered& entered);

// Room for an object, held; the caller constructs it and then owns `word`.
Result<Placed> allocate_slow(std::size_t bytes, bool fixed, PageHold& hold);

// The same from the thread's log, if that has room. The log pins its page until it is full; the hold
// takes over from there. A page that the egress looks at just now is the slow path's.
[[gnu::always_inline]] inline bool allocate_fast(std::size_t bytes, Placed& placed, PageHold& hold) {
  if (t_thread == nullptr) [[unlikely]]
    return false;
  Log& log = t_thread->fresh;
  const std::uint32_t granules = granules_of(bytes);
  HazardSlot* const slot = free_slot();
  if (!log.has_room(granules) || slot == nullptr) [[unlikely]]
    return false;
  slot->store(log.page, std::memory_order_release);
  sync::StdAtomics::compiler_fence();
  if (!PageEntry{g_view.entries[log.page].load(std::memory_order_acquire)}.is_local()) [[unlikely]] {
    slot->store(0, std::memory_order_release);
    return false;
  }
  placed = log.place(static_cast<std::uint32_t>(bytes));
  hold.reset(hold_of(slot));
  return true;
}
[[gnu::always_inline]] inline Result<Placed> allocate(std::size_t bytes, bool fixed, PageHold& hold) {
  Placed placed;
  if (!fixed && allocate_fast(bytes, placed, hold)) [[likely]]
    return placed;
  return allocate_slow(bytes, fixed, hold);
}
// Frees the memory of an object that has been destroyed.
void free_object(std::uint64_t word);
[[noreturn]] void lost(const Error& error);
// Asks for an object that is not here, or not known to be.
void prefetch_far(std::atomic<std::uint64_t>& at);
// The byte `offset` of an object will be needed soon: into the processor's cache if it is local,
// else into local memory.
inline void prefetch(std::atomic<std::uint64_t>& at, std::size_t offset) {
  // relaxed: hints. A page that leaves meanwhile is prefetched for nothing.
  const PointerWord word{at.load(std::memory_order_relaxed)};
  if (word.is_null()) return;
  const PageEntry entry{g_view.entries[word.page()].load(std::memory_order_relaxed)};
  if (entry.is_local()) [[likely]] {
    __builtin_prefetch(g_view.frame(entry.index()) + word.place() + offset);
  } else {
    prefetch_far(at);
  }
}

}  // namespace yonder::heap::internal
