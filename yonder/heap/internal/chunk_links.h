#pragma once
// The chunks of a far::list, in order: a doubly linked list of records in local memory.
//
// Far pointers have one owner, so chunks cannot point to each other both ways; their order is
// kept here instead, 24 bytes per chunk. Records are named by numbers, which stay the same while
// their chunk exists; numbers of chunks that went are used again.
//
// Concurrency: as a std::list: const calls by many, others by one alone.
// Lifetime: the heap outlives it. Chunks are freed with it; nothing in them is destroyed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "yonder/heap/internal/block.h"

namespace yonder::heap::internal {

class ChunkLinks {
 public:
  // Before the first and behind the last.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Record {
    Block block;
    std::uint32_t next = kNone;  // Of a free record: the next free one.
    std::uint32_t previous = kNone;
    std::uint32_t items = 0;
  };

  ChunkLinks() = default;
  ChunkLinks(ChunkLinks&& other) noexcept
      : records_(std::move(other.records_)),
        room_(std::exchange(other.room_, 0)),
        free_(std::exchange(other.free_, kNone)),
        first_(std::exchange(other.first_, kNone)),
        last_(std::exchange(other.last_, kNone)) {}
  ChunkLinks& operator=(ChunkLinks&& other) noexcept {
    if (this != &other) {
      records_ = std::move(other.records_);
      room_ = std::exchange(other.room_, 0);
      free_ = std::exchange(other.free_, kNone);
      first_ = std::exchange(other.first_, kNone);
      last_ = std::exchange(other.last_, kNone);
    }
    return *this;
  }
  ~ChunkLinks() = default;

  std::uint32_t first() const { return first_; }
  std::uint32_t last() const { return last_; }
  Record& operator[](std::uint32_t chunk) { return records_[chunk]; }
  const Record& operator[](std::uint32_t chunk) const { return records_[chunk]; }
  // Local memory besides the object itself.
  std::size_t local_bytes() const { return room_ * sizeof(Record); }

  // Puts a chunk behind `previous` (kNone: before all); its number.
  std::uint32_t insert_behind(std::uint32_t previous, Block block) {
    if (free_ == kNone) grow();
    const std::uint32_t chunk = free_;
    free_ = records_[chunk].next;
    const std::uint32_t next = previous == kNone ? first_ : records_[previous].next;
    records_[chunk].block = std::move(block);
    records_[chunk].next = next;
    records_[chunk].previous = previous;
    records_[chunk].items = 0;
    (previous == kNone ? first_ : records_[previous].next) = chunk;
    (next == kNone ? last_ : records_[next].previous) = chunk;
    return chunk;
  }

  // Frees a chunk.
  void remove(std::uint32_t chunk) {
    Record& gone = records_[chunk];
    (gone.previous == kNone ? first_ : records_[gone.previous].next) = gone.next;
    (gone.next == kNone ? last_ : records_[gone.next].previous) = gone.previous;
    gone.block.reset();
    gone.next = free_;
    free_ = chunk;
  }

 private:
  void grow() {
    const std::uint32_t room = room_ == 0 ? 2 : room_ * 2;
    auto records = std::make_unique<Record[]>(room);
    for (std::uint32_t i = 0; i < room_; ++i) records[i] = std::move(records_[i]);
    for (std::uint32_t i = room_; i < room; ++i) records[i].next = i + 1 < room ? i + 1 : kNone;
    free_ = room_;
    records_ = std::move(records);
    room_ = room;
  }

  std::unique_ptr<Record[]> records_;
  std::uint32_t room_ = 0;
  std::uint32_t free_ = kNone;
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
};
static_assert(sizeof(ChunkLinks::Record) == 24);

}  // namespace yonder::heap::internal
