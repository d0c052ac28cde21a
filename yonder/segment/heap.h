#pragma once
// Heap: an allocator whose whole state lies inside the memory it manages.
//
//   YONDER_TRY(heap, Heap::format(segment_bytes));
//   void* item = heap->try_allocate(180);
//   …the bytes move to another process, to the same address…
//   YONDER_TRY(heap, Heap::adopt(segment_bytes));    // and goes on where it was
//   heap->deallocate(item);
//
// Everything a container keeps must move with its segment, the free lists too, and
// what is freed must be usable again at once and for any size: a bump pointer, as in
// the paper, would fill a long-lived segment with garbage. So this is a two-level
// segregated fit: constant time, neighbours that are free are joined at once, 8 bytes
// per allocation, and memory that was never needed is never touched. A few small pieces that
// were freed last are kept aside, unjoined: containers free and allocate the same few sizes,
// and whoever takes such a piece again touches nothing but the piece. They are joined when
// memory is short.
//
//   address  base                                                             end
//            | Heap (this struct) | block | block | block | …           | sentinel |
//   block    | word: bytes, free?, free before? | payload, 16-aligned … |
//   free one | word | next | previous | …                  | its bytes  |
//   aside    | word: bytes, aside     | next | …                        |
//
// Invariants (check_invariants() walks all blocks):
//   H1  Blocks follow each other without a gap from the first one to the sentinel.
//   H2  No two free blocks are neighbours.
//   H3  A block's "free before" bit is true exactly if the block before it is free, and
//       then the last word of that block is its size.
//   H4  Exactly the free blocks are listed, each in the list of its size.
//   H5  used_bytes() is the sum of the blocks that are neither free nor aside.
//   H6  Exactly the blocks marked "aside" are in the lists of those, each in that of its size,
//       at most kAside each. For H1 to H4 they are like used ones.
//
// Concurrency: one thread at a time; like the containers it serves.
// Lifetime: lives in the memory it was given and ends with it; there is nothing to
// destroy. All pointers inside are absolute: the memory must be mapped at the address
// where it was formatted, which is what segments are for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/check.h"
#include "yonder/base/result.h"

namespace yonder::segment {

class Heap {
 public:
  // What every allocation is aligned to, and a multiple of which it occupies.
  static constexpr std::size_t kGranule = 16;
  // Beyond the payload.
  static constexpr std::size_t kWordBytes = 8;
  // Less makes no sense; a segment has at least 64 KiB.
  static constexpr std::size_t kMinBytes = 16 * 1024;

  // Makes an empty heap of `memory` (its old content is lost).
  // kInvalidArgument: not 16-aligned, or shorter than kMinBytes.
  static Result<Heap*> format(std::span<std::byte> memory);
  // The heap that lies in `memory`. kCorrupt: there is none, of another layout, of
  // another length or made for another address. Only the head is looked at: who moves
  // memory between processes trusts both; check_invariants() looks at the rest.
  static Result<Heap*> adopt(std::span<std::byte> memory);

  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Null if no free piece of this size was found in constant time: one of exactly a
  // listed size (see largest_allocation) always is. 0 bytes are like 1.
  // Requires that `alignment` is a power of two (checked).
  void* try_allocate(std::size_t bytes, std::size_t alignment = kGranule) {
    if (bytes <= kAsideBelow - kWordBytes - kGranule && alignment <= kGranule) [[likely]] {
      const std::size_t need = block_bytes(bytes);
      if (Block* block = aside_[need / kGranule]) return take_aside(block, need);
    }
    return allocate_listed(bytes, alignment);
  }
  // Requires that `allocation` came from try_allocate and was not freed since; an
  // obvious violation (a block that is free already) is checked.
  void deallocate(void* allocation) {
    Block* block = Block::of(allocation);
    YONDER_CHECK((block->word & (Block::kFree | Block::kAside)) == 0 && block->bytes() >= kMinBlock,
                 "a heap's allocation is freed once");
    const std::size_t bytes = block->bytes();
    used_bytes_ -= bytes;
    --allocations_;
    if (bytes < kAsideBelow && aside_counts_[bytes / kGranule] < kAside) [[likely]] {
      put_aside(block, bytes);
    } else {
      join_and_list(block);
    }
  }
  // Bytes that can be used at `allocation`: what was asked for, or a little more.
  static std::size_t usable_bytes(const void* allocation);

  // A pointer that the application finds again after the move, e.g. to its container.
  void* root() const { return root_; }
  void set_root(void* root) { root_ = root; }

  // Of the whole memory; what allocations occupy including their words; how many there
  // are; how far the memory was ever used, which bounds what is resident.
  std::size_t bytes() const { return bytes_; }
  std::size_t used_bytes() const { return used_bytes_; }
  std::size_t free_bytes() const { return capacity() - used_bytes_; }
  std::size_t allocations() const { return allocations_; }
  std::size_t touched_bytes() const { return touched_; }
  // The longest allocation that could succeed now, at the default alignment. The
  // allocator looks for a piece in lists of about equal sizes: this is never too much. What
  // is aside counts only when it has been joined (try_allocate does so before it says no).
  std::size_t largest_allocation() const;

  // Calls visit(std::span<std::byte>) for the inside of every free block of at least
  // `bytes`: what may be given back to the system. The inside reads as anything later.
  template <typename Visit>
  void for_each_free(std::size_t bytes, Visit&& visit) const;

  // Walks everything: H1–H6. False if one does not hold. For tests, and for who wants
  // to know whether bytes that arrived are a heap.
  bool check_invariants() const;

 private:
  // Lists: sizes below 256 in steps of 16, then 16 lists per power of two. 2^37 is
  // beyond the longest segment (64 GiB), so no size lacks a list.
  static constexpr unsigned kSteps = 16;
  static constexpr unsigned kFirstLog = 8;
  static constexpr unsigned kLastLog = 37;
  static constexpr unsigned kRows = kLastLog - kFirstLog + 1;
  static constexpr std::size_t kMinBlock = 32;  // word, two links, size
  // Kept aside: blocks shorter than this, and so many of a size: at most 60 KiB in all
  // (32 of 32, 48, … 240 bytes).
  static constexpr std::size_t kAsideBelow = 256;
  static constexpr std::uint8_t kAside = 32;

  struct Block {
    static constexpr std::uint64_t kFree = 1;
    static constexpr std::uint64_t kFreeBefore = 2;
    static constexpr std::uint64_t kAside = 4;

    std::uint64_t word;
    Block* next;      // free blocks, and those aside
    Block* previous;  // free blocks only

    std::size_t bytes() const { return word & ~std::uint64_t{kGranule - 1}; }
    bool is_free() const { return (word & kFree) != 0; }
    bool is_free_before() const { return (word & kFreeBefore) != 0; }
    bool is_aside() const { return (word & kAside) != 0; }
    std::byte* begin() { return reinterpret_cast<std::byte*>(this); }
    const std::byte* begin() const { return reinterpret_cast<const std::byte*>(this); }
    Block* after() { return reinterpret_cast<Block*>(begin() + bytes()); }
    const Block* after() const { return reinterpret_cast<const Block*>(begin() + bytes()); }
    Block* before() { return reinterpret_cast<Block*>(begin() - last_word_before()); }
    std::uint64_t last_word_before() const { return reinterpret_cast<const std::uint64_t*>(this)[-1]; }
    void write_last_word() { reinterpret_cast<std::uint64_t*>(begin() + bytes())[-1] = bytes(); }
    void* payload() { return begin() + kWordBytes; }
    static Block* of(void* payload) {
      return reinterpret_cast<Block*>(static_cast<std::byte*>(payload) - kWordBytes);
    }
    static const Block* of(const void* payload) {
      return reinterpret_cast<const Block*>(static_cast<const std::byte*>(payload) - kWordBytes);
    }
  };

  // Where a size is listed.
  struct Place {
    unsigned row;
    unsigned step;
  };
  static Place place_of(std::size_t bytes);
  // The first place all of whose blocks have at least `bytes`.
  static Place place_for(std::size_t bytes);

  Heap() = default;
  // What a payload of `bytes` occupies; at most bytes_ (checked by the callers).
  static constexpr std::size_t block_bytes(std::size_t bytes) {
    const std::size_t rounded = (bytes + kWordBytes + kGranule - 1) & ~(kGranule - 1);
    return rounded < kMinBlock ? kMinBlock : rounded;
  }
  void* take_aside(Block* block, std::size_t bytes) {
    aside_[bytes / kGranule] = block->next;
    --aside_counts_[bytes / kGranule];
    block->word &= ~Block::kAside;
    used_bytes_ += bytes;
    ++allocations_;
    return block->payload();
  }
  void put_aside(Block* block, std::size_t bytes) {
    block->word |= Block::kAside;
    block->next = aside_[bytes / kGranule];
    aside_[bytes / kGranule] = block;
    ++aside_counts_[bytes / kGranule];
  }
  void* allocate_listed(std::size_t bytes, std::size_t alignment);
  void* allocate_once(std::size_t bytes, std::size_t alignment);
  // A block that is no longer used, with its free neighbours.
  void join_and_list(Block* block);
  // Joins all that is aside. False if there was nothing.
  bool join_aside();
  std::size_t capacity() const;
  const Block* first_block() const;
  Block* first_block() { return const_cast<Block*>(static_cast<const Heap*>(this)->first_block()); }
  const Block* sentinel() const;
  void list(Block* block);
  void unlist(Block* block);
  Block* find(std::size_t bytes);
  Block* find_alike(std::size_t bytes, unsigned looks);
  // Turns `block`, which is not listed, into a used one of `bytes`; the rest is listed.
  void use(Block* block, std::size_t bytes);
  // Gives the first `bytes` of `block` back as a free block of their own; the rest.
  Block* cut_front(Block* block, std::size_t bytes);
  void make_free(Block* block, std::size_t bytes);
  bool check_lists() const;
  bool check_aside() const;

  std::uint64_t magic_;
  Heap* self_;
  std::uint64_t bytes_;
  std::uint64_t used_bytes_;
  std::uint64_t allocations_;
  std::uint64_t touched_;
  void* root_;
  std::uint64_t rows_;  // bit r: row r has a block
  std::array<std::uint16_t, kRows> steps_;
  std::array<std::array<Block*, kSteps>, kRows> lists_;
  std::array<Block*, kAsideBelow / kGranule> aside_;
  std::array<std::uint8_t, kAsideBelow / kGranule> aside_counts_;
};

template <typename Visit>
void Heap::for_each_free(std::size_t bytes, Visit&& visit) const {
  for (const Block* block = first_block(); block != sentinel(); block = block->after()) {
    if (!block->is_free() || block->bytes() < bytes) continue;
    // The links at the front and the size at the end stay.
    std::byte* begin = const_cast<std::byte*>(block->begin());
    visit(std::span(begin + sizeof(Block), begin + block->bytes() - kWordBytes));
  }
}

}  // namespace yonder::segment
