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
// per allocation, and memory that was never needed is never touched.
//
//   address  base                                                             end
//            | Heap (this struct) | block | block | block | …           | sentinel |
//   block    | word: bytes, free?, free before? | payload, 16-aligned … |
//   free one | word | next | previous | …                  | its bytes  |
//
// Invariants (check_invariants() walks all blocks):
//   H1  Blocks follow each other without a gap from the first one to the sentinel.
//   H2  No two free blocks are neighbours.
//   H3  A block's "free before" bit is true exactly if the block before it is free, and
//       then the last word of that block is its size.
//   H4  Exactly the free blocks are listed, each in the list of its size.
//   H5  used_bytes() is the sum of the blocks that are not free.
//
// Concurrency: one thread at a time; like the containers it serves.
// Lifetime: lives in the memory it was given and ends with it; there is nothing to
// destroy. All pointers inside are absolute: the memory must be mapped at the address
// where it was formatted, which is what segments are for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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
  void* try_allocate(std::size_t bytes, std::size_t alignment = kGranule);
  // Requires that `allocation` came from try_allocate and was not freed since; an
  // obvious violation (a block that is free already) is checked.
  void deallocate(void* allocation);
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
  // allocator looks for a piece in lists of about equal sizes: this is never too much.
  std::size_t largest_allocation() const;

  // Calls visit(std::span<std::byte>) for the inside of every free block of at least
  // `bytes`: what may be given back to the system. The inside reads as anything later.
  template <typename Visit>
  void for_each_free(std::size_t bytes, Visit&& visit) const;

  // Walks everything: H1–H5. False if one does not hold. For tests, and for who wants
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

  struct Block {
    static constexpr std::uint64_t kFree = 1;
    static constexpr std::uint64_t kFreeBefore = 2;

    std::uint64_t word;
    Block* next;      // free blocks only
    Block* previous;  // free blocks only

    std::size_t bytes() const { return word & ~std::uint64_t{kGranule - 1}; }
    bool is_free() const { return (word & kFree) != 0; }
    bool is_free_before() const { return (word & kFreeBefore) != 0; }
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
