#pragma once
// far::span: a part of a far::vector or far::array, and how to walk through it.
//
//   for (const auto& chunk : far::span(prices).first(1000).chunks(far::Scan::kOnce))
//     for (const double price : chunk) total += price;
//
// A walk goes chunk by chunk: one guard, so one barrier, for all items of a chunk. It asks for
// the chunks ahead of it before it needs them, and can leave those behind it first in line to
// go, so that one pass over much data does not drive out what others use.
//
//   Scan        asks ahead   what it leaves behind
//   kKeep       yes          stays as long as anything that was used
//   kOnce       yes          leaves first (non-temporal)
//   kScattered  no           stays; for walks that stop early
//
// Concurrency: as its container: any number of threads may read; each item needs agreement on
// who writes it.
// Lifetime: the container outlives it, keeps its length and is not moved; a guard ends before its
// items do. A walk holds one chunk at a time.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/heap/guard.h"
#include "yonder/heap/internal/block_table.h"

namespace yonder::heap {

enum class Scan : std::uint8_t { kKeep, kOnce, kScattered };

namespace internal {

// How items of a type lie in chunks: a power of two of them each, so that finding one is a shift
// and a mask. The rest of a chunk's bytes is left to other objects.
template <typename T, std::size_t kChunkBytes>
struct ChunkShape {
  static_assert(sizeof(T) <= kChunkBytes && kChunkBytes <= kPageBytes,
                "far memory: an item is at most a chunk, and a chunk at most a page (4096 bytes)");
  static constexpr std::size_t kItems = std::bit_floor(kChunkBytes / sizeof(T));
  static constexpr unsigned kShift = static_cast<unsigned>(std::countr_zero(kItems));

  static constexpr std::size_t chunk_of(std::size_t index) { return index >> kShift; }
  static constexpr std::size_t place_in_chunk(std::size_t index) { return index & (kItems - 1); }
};

// A walk over the chunks that hold the items [first, end) of a table. T is const for reading.
template <typename T, std::size_t kChunkBytes>
class ChunkWalk {
  using Shape = ChunkShape<std::remove_const_t<T>, kChunkBytes>;
  static constexpr Access kAccess = std::is_const_v<T> ? Access::kRead : Access::kWrite;
  // Enough to cover a round trip to a node with the work on a few pages, and little enough for
  // the smallest heap (64 frames).
  static constexpr std::size_t kAhead = 8;

 public:
  ChunkWalk(const BlockTable& table, std::size_t first, std::size_t end, Scan scan)
      : table_(&table), first_(first), end_(end), scan_(scan) {}

  class Iterator {
   public:
    using value_type = Guard<T[]>;
    using difference_type = std::ptrdiff_t;

    // The items of this chunk that belong to the walk.
    value_type operator*() const {
      PageHold hold;
      std::byte* const memory = (*table_)[Shape::chunk_of(index_)].template enter<kAccess>(hold);
      T* const items = reinterpret_cast<T*>(memory) + Shape::place_in_chunk(index_);
      return {std::move(hold), std::span<T>(items, next() - index_)};
    }
    Iterator& operator++() {
      if (scan_ == Scan::kOnce) (*table_)[Shape::chunk_of(index_)].leave_soon();
      index_ = next();
      if (scan_ != Scan::kScattered) ask_for(Shape::chunk_of(index_) + kAhead);
      return *this;
    }
    void operator++(int) { ++*this; }
    // The number of the first item of this chunk.
    std::size_t index() const { return index_; }
    friend bool operator==(const Iterator& at, std::default_sentinel_t) { return at.index_ >= at.end_; }

   private:
    friend class ChunkWalk;
    Iterator(const ChunkWalk& walk)
        : table_(walk.table_), index_(walk.first_), end_(walk.end_), scan_(walk.scan_) {
      if (scan_ == Scan::kScattered || index_ >= end_) return;
      for (std::size_t ahead = 1; ahead <= kAhead; ++ahead) ask_for(Shape::chunk_of(index_) + ahead);
    }
    std::size_t next() const { return std::min(end_, (Shape::chunk_of(index_) + 1) << Shape::kShift); }
    void ask_for(std::size_t chunk) const {
      if (chunk << Shape::kShift < end_) (*table_)[chunk].prefetch();
    }

    const BlockTable* table_;
    std::size_t index_;
    std::size_t end_;
    Scan scan_;
  };

  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  const BlockTable* table_;
  std::size_t first_;
  std::size_t end_;
  Scan scan_;
};

}  // namespace internal

// T is const for a view that only reads.
template <typename T, std::size_t kChunkBytes = kPageBytes>
class span {
  using Item = std::remove_const_t<T>;
  using Shape = internal::ChunkShape<Item, kChunkBytes>;

 public:
  using element_type = T;
  using value_type = Item;

  span() = default;
  // Containers make them: vector::all(), array::all().
  span(const internal::BlockTable& table, std::size_t first, std::size_t count)
      : table_(&table), first_(first), count_(count) {}
  // A view that reads, of one that writes.
  operator span<const Item, kChunkBytes>() const
    requires(!std::is_const_v<T>)
  {
    return count_ == 0 ? span<const Item, kChunkBytes>()
                       : span<const Item, kChunkBytes>(*table_, first_, count_);
  }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

  // Item number `index` of the view. Requires index < size() (checked).
  ReadGuard<Item> read(std::size_t index) const {
    internal::PageHold hold;
    const std::byte* const item = enter<internal::Access::kRead>(index, hold);
    return {std::move(hold), reinterpret_cast<const Item*>(item)};
  }
  WriteGuard<Item> write(std::size_t index) const
    requires(!std::is_const_v<T>)
  {
    internal::PageHold hold;
    std::byte* const item = enter<internal::Access::kWrite>(index, hold);
    return {std::move(hold), reinterpret_cast<Item*>(item)};
  }
  Item get(std::size_t index) const { return *read(index); }
  void set(std::size_t index, Item value) const
    requires(!std::is_const_v<T>)
  {
    *write(index) = std::move(value);
  }
  // Item `index` will be needed soon. Never waits.
  void prefetch(std::size_t index) const {
    YONDER_CHECK(index < count_, "far::span: index");
    (*table_)[Shape::chunk_of(first_ + index)].prefetch();
  }

  // Parts of the view. Require that they lie in it (checked).
  span subspan(std::size_t first, std::size_t count) const {
    YONDER_CHECK(first <= count_ && count <= count_ - first, "far::span: a part lies in the whole");
    span part = *this;
    part.first_ += first;
    part.count_ = count;
    return part;
  }
  span first(std::size_t count) const { return subspan(0, count); }
  span last(std::size_t count) const { return subspan(count_ - count, count); }

  // A range of guards (Guard<T[]>), one for each chunk in turn.
  internal::ChunkWalk<T, kChunkBytes> chunks(Scan scan = Scan::kKeep) const {
    static const internal::BlockTable kNone;
    return {table_ == nullptr ? kNone : *table_, first_, first_ + count_, scan};
  }
  // Calls f(item) for each item in order. f may not touch the container's length.
  template <typename F>
  void for_each(F&& f, Scan scan = Scan::kKeep) const {
    for (const auto& chunk : chunks(scan))
      for (T& item : chunk) f(item);
  }

 private:
  template <internal::Access kAccess>
  std::byte* enter(std::size_t index, internal::PageHold& hold) const {
    YONDER_CHECK(index < count_, "far::span: index");
    const std::size_t at = first_ + index;
    return (*table_)[Shape::chunk_of(at)].template enter<kAccess>(hold) +
           Shape::place_in_chunk(at) * sizeof(Item);
  }

  const internal::BlockTable* table_ = nullptr;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace yonder::heap
