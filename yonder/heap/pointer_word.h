#pragma once
// The 64 bits of a far pointer: where an object is in the far address space, and how
// long it is.
//
//   bit 0      4         12           24      32                     64
//      | zero | granule | bytes - 1  | stamp | page                   |
//
// So one mask gives the object's place in its page, and the stamp and the zeroes lie where page
// entries have the stamp and what the barrier asks for (internal/page_entry.h).
//
// The far address space is pages of 4 KiB, made of granules of 16 bytes. An object lies in
// one page and begins at a granule. Which memory holds a page at the moment (a local
// frame, a slot on a node, or none because its objects have moved) is said by the page's
// entry (internal/page_entry.h), not by the pointer: paging changes no pointer.
//
// Page 0 does not exist, so zero is the null pointer. Page 1 stands for objects longer
// than a page: those live elsewhere (huge.h).
//
// The stamp is the number of the page's stay in local memory in which the object was last
// dereferenced: equal to the page's, its cards are set, and the barrier need not look at them.
// It stands in for the access bit of Atlas, which somebody would have to clear in all pointers
// when a page leaves. It is a hint: it may be lost with a clean page.
//
// Atlas also has a moving bit. Ours needs none: a move is one compare-and-swap of the whole word
// by whoever holds the old page (internal/runtime.h, invariants).
//
// Concurrency and lifetime: a value.

#include <cstddef>
#include <cstdint>

#include "yonder/base/check.h"

namespace yonder::heap {

inline constexpr std::size_t kGranuleBytes = 16;
inline constexpr std::size_t kGranulesPerPage = 256;

constexpr std::uint32_t granules_of(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + kGranuleBytes - 1) / kGranuleBytes);
}

struct PointerWord {
  std::uint64_t bits = 0;

  static constexpr std::uint64_t kStampMask = std::uint64_t{0xff} << 24;
  static constexpr std::uint64_t kPlaceMask = 0xff0;

  static constexpr PointerWord make(std::uint32_t page, std::uint32_t granule, std::uint32_t bytes) {
    YONDER_DCHECK(granule + granules_of(bytes) <= kGranulesPerPage, "an object lies in one page");
    return {std::uint64_t{granule} << 4 | std::uint64_t{bytes - 1} << 12 | std::uint64_t{page} << 32};
  }
  constexpr std::uint32_t granule() const { return static_cast<std::uint32_t>((bits >> 4) & 0xff); }
  // In bytes, from the beginning of the page.
  constexpr std::size_t place() const { return bits & kPlaceMask; }
  // The highest bits: one shift on the way of every dereference.
  constexpr std::uint32_t page() const { return static_cast<std::uint32_t>(bits >> 32); }
  constexpr std::uint32_t bytes() const { return static_cast<std::uint32_t>((bits >> 12) & 0xfff) + 1; }
  constexpr std::uint32_t granules() const { return granules_of(bytes()); }
  constexpr bool is_null() const { return bits == 0; }
  constexpr PointerWord stamped(std::uint64_t stamp_bits) const {
    return {(bits & ~kStampMask) | (stamp_bits & kStampMask)};
  }
  // Whether both name the same object.
  constexpr bool same_object(PointerWord other) const { return ((bits ^ other.bits) & ~kStampMask) == 0; }
  // The same object elsewhere.
  constexpr PointerWord at(std::uint32_t page, std::uint32_t granule) const {
    return make(page, granule, bytes());
  }
  friend constexpr bool operator==(PointerWord, PointerWord) = default;
};
static_assert(PointerWord::make(0x12345678, 0xff, 16).page() == 0x12345678);
static_assert(PointerWord::make(7, 0, 4096).bytes() == 4096);

}  // namespace yonder::heap
