#pragma once
// The tables of a heap: an entry and the live granules of each page, and what is known of
// each local frame. The barrier of every dereference reads them, so they are plain arrays
// behind one set of addresses per process (`g_view`).
//
// Per page of the far address space: 8 bytes of entry, 32 bytes of live granules, 4 bytes
// of numbers: 1.07 % of the page. Per local frame 48 bytes: 1.2 % of the frame. At a
// quarter of local memory that is 1.4 % of all.
//
// Live granules: a page that is being filled has all bits set, so that allocating touches
// none of them; closing the log clears those that were not used. Freeing an object clears
// its bits, and whoever brings the number to zero reports the page as dead.
//
// Cards: a bit per granule, set for the whole object at its first dereference since the
// page came in. Set by atomic or, under a hold: when nobody holds a page every object's
// bits are all set or all clear, which is what lets an evacuation move runs of bits instead
// of objects.
//
// Concurrency: all fields are atomic; each says who changes it. Lifetime: with the heap.

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "yonder/heap/internal/page_entry.h"
#include "yonder/heap/pointer_word.h"
#include "yonder/heap/slot_store.h"

namespace yonder::heap::internal {

// 256 bits, one per granule of a page.
using GranuleBits = std::array<std::uint64_t, 4>;
using AtomicGranuleBits = std::array<std::atomic<std::uint64_t>, 4>;

// relaxed: whoever needs more than a guess has closed the page.
inline GranuleBits load(const AtomicGranuleBits& bits) {
  GranuleBits copy;
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = bits[i].load(std::memory_order_relaxed);
  return copy;
}

// Calls f(word number, mask) for the words that the granules [first, first + count) touch.
template <typename F>
void for_granule_words(std::uint32_t first, std::uint32_t count, F&& f) {
  while (count != 0) {
    const std::uint32_t shift = first % 64;
    const std::uint32_t here = count < 64 - shift ? count : 64 - shift;
    const std::uint64_t mask = (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << shift;
    f(first / 64, mask);
    first += here;
    count -= here;
  }
}

// How many bits are set below `granule`.
inline std::uint32_t rank(const GranuleBits& bits, std::uint32_t granule) {
  std::uint32_t count = 0;
  for (std::uint32_t word = 0; word < granule / 64; ++word) {
    count += static_cast<std::uint32_t>(std::popcount(bits[word]));
  }
  const std::uint64_t below = (std::uint64_t{1} << (granule % 64)) - 1;
  return count + static_cast<std::uint32_t>(std::popcount(bits[granule / 64] & below));
}
inline std::uint32_t count(const GranuleBits& bits) {
  std::uint32_t sum = 0;
  for (const std::uint64_t word : bits) sum += static_cast<std::uint32_t>(std::popcount(word));
  return sum;
}
inline bool test(const GranuleBits& bits, std::uint32_t granule) {
  return ((bits[granule / 64] >> (granule % 64)) & 1) != 0;
}

inline constexpr std::uint32_t kNoSlot = ~0u;

struct FrameInfo {
  AtomicGranuleBits cards;               // Holders set, the egress clears.
  std::atomic<std::uint32_t> page;       // 0: the frame is free.
  std::atomic<std::uint32_t> slot;       // Where the page's older bytes are, or kNoSlot.
  std::atomic<std::uint8_t> read_ahead;  // Came without being asked for; cleared at the first touch.
  std::atomic<std::uint16_t> pins;       // Kept by more than a hazard slot: logs, pins, deep nests.
};
static_assert(sizeof(FrameInfo) == 48);

// What the barrier needs. Set while a heap exists.
struct View {
  std::atomic<std::uint64_t>* entries = nullptr;
  std::byte* frames = nullptr;
  FrameInfo* infos = nullptr;

  std::byte* frame(std::uint32_t index) const { return frames + std::size_t{index} * kPageBytes; }
};

// One heap per process (ADR 29): a pointer has no room to name its heap, and the barrier no
// time to look for it.
inline constinit View g_view;

// Where the objects of a forwarded page went. Objects keep their order: the k-th granule
// that went to a place is k granules behind its beginning.
struct ForwardRecord {
  GranuleBits live;  // What was live when the page was emptied…
  GranuleBits hot;   // …and which of it went to the hot place.
  std::uint32_t hot_page;
  std::uint32_t hot_granule;
  std::uint32_t cold_page;
  std::uint32_t cold_granule;
};

}  // namespace yonder::heap::internal
