#pragma once
// The chunks of a container, by number.
//
// The first chunk's pointer lies in the table itself, the others' in an array in local memory: a
// container of one chunk uses no local memory besides itself, a long one 8 bytes per chunk (up to
// 16 while the array has room to grow). The array is 64-bit words that never point into the
// table, so a table may itself lie in far memory: its bytes can be moved.
//
// Concurrency: as a std::vector: const calls by many, others by one alone.
// Lifetime: the heap outlives it. Chunks are freed with it; nothing in them is destroyed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "yonder/heap/internal/block.h"
#include "yonder/heap/relocatable.h"

namespace yonder::heap::internal {

class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&& other) noexcept
      : first_(std::move(other.first_)),
        others_(std::move(other.others_)),
        count_(std::exchange(other.count_, 0)),
        room_(std::exchange(other.room_, 0)) {}
  BlockTable& operator=(BlockTable&& other) noexcept {
    if (this != &other) {
      first_ = std::move(other.first_);
      others_ = std::move(other.others_);
      count_ = std::exchange(other.count_, 0);
      room_ = std::exchange(other.room_, 0);
    }
    return *this;
  }
  ~BlockTable() = default;

  std::size_t count() const { return count_; }
  // Requires that there is such a chunk.
  const Block& operator[](std::size_t chunk) const { return chunk == 0 ? first_ : others_[chunk - 1]; }

  void push_back(Block block) {
    if (count_ > room_) grow();
    at(count_++) = std::move(block);
  }
  void pop_back() { at(--count_).reset(); }
  void replace(std::size_t chunk, Block block) { at(chunk) = std::move(block); }
  // Local memory besides the table itself.
  std::size_t local_bytes() const { return room_ * sizeof(Block); }

 private:
  Block& at(std::size_t chunk) { return chunk == 0 ? first_ : others_[chunk - 1]; }

  void grow() {
    const std::uint32_t room = room_ == 0 ? 4 : room_ * 2;
    auto others = std::make_unique<Block[]>(room);
    for (std::uint32_t i = 0; i < room_; ++i) others[i] = std::move(others_[i]);
    others_ = std::move(others);
    room_ = room;
  }

  Block first_;
  std::unique_ptr<Block[]> others_;
  std::uint32_t count_ = 0;
  std::uint32_t room_ = 0;  // Of others_.
};

}  // namespace yonder::heap::internal

template <>
struct yonder::heap::is_relocatable<yonder::heap::internal::BlockTable> : std::true_type {};
