#pragma once
// A segment of a far::unordered_map: where the entries of one range of hashes are.
//
// A far object of 744 bytes, so that five fit into a page. It has room for 56 entries, which lie
// close together from the first slot on; three arrays say for each which node it is:
//
//   tags     one byte of the hash: eight of them are compared at a time
//   hashes   the upper 32 bits: tell entries apart before a node is fetched, and say, when the
//            segment is split, which half an entry belongs to; so splitting fetches no node
//   nodes    the far pointers
//
// All entries share the first `depth` bits of their hashes (extendible hashing). If that cannot
// be kept up, because too many hashes are equal, more entries go to an overflow segment, and the
// segment is not split any more.
//
// Concurrency: as its map. Lifetime: whoever takes a node out of it owns the node.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "yonder/heap/internal/block.h"

namespace yonder::heap::internal {

struct HashSegment {
  static constexpr std::uint32_t kSlots = 56;
  static constexpr std::uint32_t kNone = kSlots;

  static std::uint8_t tag_of(std::uint64_t hash) { return static_cast<std::uint8_t>(hash); }
  static std::uint32_t upper_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  bool is_full() const { return count == kSlots; }

  // The first slot at or behind `from` that may be the entry; kNone: there is none.
  std::uint32_t find(std::uint64_t hash, std::uint32_t from) const {
    const std::uint64_t pattern = tag_of(hash) * kOnes;
    for (std::uint32_t word = from / 8; word * 8 < count; ++word) {
      // A byte is zero where a tag is equal; the borrow may show more, which `hashes` sorts out.
      const std::uint64_t differs = tags[word] ^ pattern;
      std::uint64_t found = (differs - kOnes) & ~differs & kHighs;
      for (; found != 0; found &= found - 1) {
        const std::uint32_t slot = word * 8 + static_cast<std::uint32_t>(std::countr_zero(found)) / 8;
        if (slot >= from && slot < count && hashes[slot] == upper_of(hash)) return slot;
      }
    }
    return kNone;
  }

  // Requires room.
  void add(std::uint64_t hash, Block node) { add(tag_of(hash), upper_of(hash), std::move(node)); }

  // Its last entry takes the slot's place.
  Block take(std::uint32_t slot) {
    Block node = std::move(nodes[slot]);
    --count;
    if (slot != count) {
      set_tag(slot, tag_at(count));
      hashes[slot] = hashes[count];
      nodes[slot] = std::move(nodes[count]);
    }
    return node;
  }

  // Moves the entries whose next bit is set to `upper`, which is empty; both are deeper then.
  void split(HashSegment& upper) {
    const std::uint32_t bit = std::uint32_t{1} << (31 - depth);
    upper.depth = ++depth;
    for (std::uint32_t slot = 0; slot < count;) {
      if ((hashes[slot] & bit) == 0) {
        ++slot;
        continue;
      }
      const std::uint8_t tag = tag_at(slot);
      const std::uint32_t hash = hashes[slot];
      upper.add(tag, hash, take(slot));
    }
  }

  std::uint32_t count = 0;
  std::uint32_t depth = 0;
  Block overflow;
  std::uint64_t tags[kSlots / 8] = {};
  std::uint32_t hashes[kSlots] = {};
  Block nodes[kSlots];

 private:
  static constexpr std::uint64_t kOnes = 0x0101010101010101;
  static constexpr std::uint64_t kHighs = 0x8080808080808080;

  std::uint8_t tag_at(std::uint32_t slot) const {
    return static_cast<std::uint8_t>(tags[slot / 8] >> (slot % 8 * 8));
  }
  void set_tag(std::uint32_t slot, std::uint8_t tag) {
    const unsigned shift = slot % 8 * 8;
    tags[slot / 8] = (tags[slot / 8] & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{tag} << shift;
  }
  void add(std::uint8_t tag, std::uint32_t hash, Block node) {
    set_tag(count, tag);
    hashes[count] = hash;
    nodes[count] = std::move(node);
    ++count;
  }
};
static_assert(sizeof(HashSegment) == 744, "five in a page");

}  // namespace yonder::heap::internal
