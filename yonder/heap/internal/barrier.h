#pragma once
// The barrier: what every dereference of a far pointer does.
//
//   1  read the pointer word                  4  read it again: still the same (H2)
//   2  publish its page in a hazard slot      5  read the page's entry: local (H1)
//   3  (compiler fence)                       6  look at the frame's info: seen before, card set
//
// Plain loads and one plain store; when any check fails, the slow path (runtime.h) sorts out
// what is the matter and does the rest. Setting the card, the reference and the dirty bit is
// rare: once per object and stay.
//
// Concurrency: any thread. Lifetime: a heap exists.

#include <atomic>
#include <cstdint>

#include "yonder/heap/internal/tables.h"
#include "yonder/heap/internal/thread_state.h"

namespace yonder::heap::internal {

// Returns null when the slow path must decide; `hold` may then hold something.
template <Access kAccess>
[[gnu::always_inline]] inline std::byte* enter_fast(std::atomic<std::uint64_t>& at, PageHold& hold) {
  ThreadState* const thread = t_thread;
  if (thread == nullptr) [[unlikely]]
    return nullptr;
  // relaxed: only a guess; the second load decides.
  const PointerWord word{at.load(std::memory_order_relaxed)};
  if (word.is_null()) [[unlikely]]
    return nullptr;
  hold.guard_ = thread->holds.publish(word.page());
  // acquire: pairs with the swap that moved the object here; its bytes are complete.
  if (!hold.guard_ || at.load(std::memory_order_acquire) != word.bits) [[unlikely]]
    return nullptr;
  // acquire: pairs with set_entry(); the frame's bytes and info are complete.
  const PageEntry entry{g_view.entries[word.page()].load(std::memory_order_acquire)};
  if (!entry.is_local()) [[unlikely]]
    return nullptr;
  FrameInfo& info = g_view.infos[entry.index()];
  const std::uint32_t granule = word.granule();
  // relaxed: marks for statistics and for the egress, which looks after our hold has ended.
  const std::uint64_t card = info.cards[granule / 64].load(std::memory_order_relaxed) >> (granule % 64);
  if ((card & info.referenced.load(std::memory_order_relaxed) & 1) == 0) [[unlikely]]
    return nullptr;
  if constexpr (kAccess == Access::kWrite) {
    if (info.dirty.load(std::memory_order_relaxed) == 0) info.dirty.store(1, std::memory_order_relaxed);
  }
  return g_view.frame(entry.index()) + std::size_t{granule} * kGranuleBytes;
}

// The same with the slow path; ends the program, or calls HeapOptions::on_lost, on an error.
std::byte* enter_slow(std::atomic<std::uint64_t>& at, Access access, PageHold& hold);
// As a result: what try_read() and try_write() return.
Result<std::byte*> try_enter_slow(std::atomic<std::uint64_t>& at, Access access, PageHold& hold);

template <Access kAccess>
[[gnu::always_inline]] inline std::byte* enter(std::atomic<std::uint64_t>& at, PageHold& hold) {
  if (std::byte* const object = enter_fast<kAccess>(at, hold)) [[likely]]
    return object;
  return enter_slow(at, kAccess, hold);
}

// Room for an object, held; the caller constructs it and then owns `word`.
Result<Placed> allocate(std::size_t bytes, bool fixed, PageHold& hold);
// Frees the memory of an object that has been destroyed.
void free_object(std::uint64_t word);
[[noreturn]] void lost(const Error& error);
void prefetch(std::atomic<std::uint64_t>& at);

}  // namespace yonder::heap::internal
