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

// `object` is null when the slow path must decide; nothing is held then.
template <Access kAccess>
[[gnu::always_inline]] inline Entered enter_fast(std::atomic<std::uint64_t>& at) {
  // relaxed: our own slots. Two are tried here; deeper nests are the slow path's.
  HazardSlot* slot = t_slots;
  if (slot->load(std::memory_order_relaxed) != 0) ++slot;
  if (slot->load(std::memory_order_relaxed) != 0) [[unlikely]]
    return {};
  // relaxed: only a guess; the second load decides. Null is page 0, which is never local.
  const PointerWord word{at.load(std::memory_order_relaxed)};
  slot->store(word.page(), std::memory_order_release);
  sync::StdAtomics::compiler_fence();
  // acquire: pairs with set_entry(); the frame's bytes are complete.
  const std::uint64_t entry = g_view.entries[word.page()].load(std::memory_order_acquire);
  // One comparison: local, referenced, dirty if we write, and the stamp of the word (which the
  // shift brings to its place).
  constexpr std::uint64_t kReady = static_cast<std::uint64_t>(PageState::kLocal) | PageEntry::kReferenced |
                                   (kAccess == Access::kWrite ? PageEntry::kDirty : 0);
  constexpr std::uint64_t kMask = PageEntry::kStateMask | kReady | PageEntry::kStampMask;
  // acquire: pairs with the swap that moved the object here; its bytes are complete.
  if (((entry ^ (word.bits << 32)) & kMask) != kReady || at.load(std::memory_order_acquire) != word.bits)
      [[unlikely]] {
    slot->store(0, std::memory_order_release);
    return {};
  }
  // The way of the address is: word, entry, object; the rest of this function is beside it.
  return {g_view.frames + std::size_t{word.granule()} * kGranuleBytes + (entry & PageEntry::kIndexMask),
          hold_of(slot)};
}

// The slow path; ends the program, or calls HeapOptions::on_lost, on an error.
Entered enter_slow(std::atomic<std::uint64_t>& at, Access access);
// As a result: what try_read() and try_write() return.
Result<Entered> try_enter_slow(std::atomic<std::uint64_t>& at, Access access);

template <Access kAccess>
[[gnu::always_inline]] inline Entered enter(std::atomic<std::uint64_t>& at) {
  const Entered entered = enter_fast<kAccess>(at);
  if (entered.object != nullptr) [[likely]]
    return entered;
  return enter_slow(at, kAccess);
}

// Room for an object, held; the caller constructs it and then owns `word`.
Result<Placed> allocate(std::size_t bytes, bool fixed, PageHold& hold);
// Frees the memory of an object that has been destroyed.
void free_object(std::uint64_t word);
[[noreturn]] void lost(const Error& error);
void prefetch(std::atomic<std::uint64_t>& at);

}  // namespace yonder::heap::internal
