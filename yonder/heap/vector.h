#pragma once
// far::vector: a sequence in far memory.
//
//   far::vector<Order> orders;
//   orders.push_back({…});
//   orders.read(7)->price;                        // a guard, for reading
//   orders.write(7)->price = 3;                   // a guard, for writing
//   orders.set(8, orders.get(7));                 // copies in and out
//   for (const auto& chunk : orders.chunks())     // a guard for each chunk
//     for (const Order& order : chunk) …
//
// Items lie in chunks of at most a page, a power of two of them in each; pointers to the chunks
// lie in local memory (8 bytes per chunk; a vector of one chunk needs none). The first chunk
// grows from 64 bytes by doubling, so a short vector is small; later ones are whole from the
// start, so items never move once there are two, and adding is O(1), not only on average.
//
// A chunk is one far object: it comes in and leaves as a whole. A vector that is read at random
// and has small items moves less with smaller chunks: far::vector<Item, 256>.
//
// T is relocatable, with or without a destructor: far pointers and far containers may be items,
// and a far::vector may lie in a far object (which then holds on to local memory, see above).
//
// Costs: read, write: one barrier. push_back, pop_back: one barrier, at times an allocation.
// Memory: items · sizeof(T), rounded up to chunks; a chunk that is not a power of two of granules
// leaves its rest to other objects. resize, clear, destruction: chunk by chunk; items without
// destructors are not brought in to be dropped.
//
// Errors: try_… return kOutOfMemory (far memory is full, or all local memory is held) and those
// of the node, and the vector is as before; the others do what HeapOptions::on_lost says.
//
// Concurrency: as std::vector: const calls by many threads, write() of different items too;
// what changes the length by one thread alone.
// Lifetime: the heap outlives it. Guards, spans and walks end before the length changes. A call
// holds at most two chunks at a time, and none when it returns (but for the guard it returns).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/result.h"
#include "yonder/heap/guard.h"
#include "yonder/heap/internal/block_table.h"
#include "yonder/heap/relocatable.h"
#include "yonder/heap/span.h"

namespace yonder::heap {

template <typename T, std::size_t kChunkBytes = kPageBytes>
class vector {
  using Shape = internal::ChunkShape<T, kChunkBytes>;

 public:
  using value_type = T;

  vector() = default;
  explicit vector(std::size_t size) { resize(size); }
  vector(vector&& other) noexcept : table_(std::move(other.table_)), size_(std::exchange(other.size_, 0)) {}
  vector& operator=(vector&& other) noexcept {
    if (this != &other) {
      clear();
      table_ = std::move(other.table_);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~vector() { clear(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Items that fit without another allocation.
  std::size_t capacity() const {
    return table_.count() <= 1 ? first_capacity() : table_.count() << Shape::kShift;
  }
  static constexpr std::size_t items_per_chunk() { return Shape::kItems; }
  // Local memory besides the vector itself.
  std::size_t local_bytes() const { return table_.local_bytes(); }

  // ---- one item. Requires index < size() (checked).
  ReadGuard<T> read(std::size_t index) const {
    internal::PageHold hold;
    const std::byte* const item = enter<internal::Access::kRead>(index, hold);
    return {std::move(hold), reinterpret_cast<const T*>(item)};
  }
  WriteGuard<T> write(std::size_t index) {
    internal::PageHold hold;
    std::byte* const item = enter<internal::Access::kWrite>(index, hold);
    return {std::move(hold), reinterpret_cast<T*>(item)};
  }
  T get(std::size_t index) const { return *read(index); }
  void set(std::size_t index, T value) { *write(index) = std::move(value); }
  Result<ReadGuard<T>> try_read(std::size_t index) const {
    internal::PageHold hold;
    YONDER_TRY(memory, block_of(index).template try_enter<internal::Access::kRead>(hold));
    return ReadGuard<T>(std::move(hold), item_at(memory, index));
  }
  Result<WriteGuard<T>> try_write(std::size_t index) {
    internal::PageHold hold;
    YONDER_TRY(memory, block_of(index).template try_enter<internal::Access::kWrite>(hold));
    return WriteGuard<T>(std::move(hold), item_at(memory, index));
  }
  // Item `index` will be needed soon. Never waits.
  void prefetch(std::size_t index) const { block_of(index).prefetch(); }

  // ---- all items, or a part of them
  span<const T, kChunkBytes> all() const { return {table_, 0, size_}; }
  span<T, kChunkBytes> all() { return {table_, 0, size_}; }
  auto chunks(Scan scan = Scan::kKeep) const { return all().chunks(scan); }
  auto chunks(Scan scan = Scan::kKeep) { return all().chunks(scan); }
  template <typename F>
  void for_each(F&& f, Scan scan = Scan::kKeep) const {
    all().for_each(std::forward<F>(f), scan);
  }
  template <typename F>
  void for_each(F&& f, Scan scan = Scan::kKeep) {
    all().for_each(std::forward<F>(f), scan);
  }

  // ---- the length
  void push_back(T value) { emplace_back(std::move(value)); }
  // The arguments may not refer to items of this vector: adding may move those.
  template <typename... Args>
  void emplace_back(Args&&... args) {
    expect(try_emplace_back(std::forward<Args>(args)...));
  }
  template <typename... Args>
  Result<void> try_emplace_back(Args&&... args) {
    if (size_ == capacity()) [[unlikely]]
      YONDER_TRY_VOID(try_reserve(size_ + 1));
    internal::PageHold hold;
    YONDER_TRY(memory, table_[Shape::chunk_of(size_)].template try_enter<internal::Access::kWrite>(hold));
    std::construct_at(item_at(memory, size_), std::forward<Args>(args)...);
    ++size_;
    return {};
  }
  // Requires !empty() (checked).
  void pop_back() {
    YONDER_CHECK(size_ != 0, "far::vector: pop_back of an empty one");
    truncate(size_ - 1);
  }
  // Copies of `items`, behind the last. They lie in local memory, or in another container's chunk.
  Result<void> try_append(std::span<const T> items) {
    const std::size_t before = size_;
    YONDER_TRY_VOID(try_reserve(size_ + items.size()));
    const Result<void> filled = fill(size_ + items.size(), [&](std::span<T> room) {
      std::uninitialized_copy_n(items.begin(), room.size(), room.begin());
      items = items.subspan(room.size());
    });
    if (!filled) truncate(before);
    return filled;
  }
  void append(std::span<const T> items) { expect(try_append(items)); }

  // New items are T{}.
  Result<void> try_resize(std::size_t size) {
    const std::size_t before = size_;
    if (size < size_) truncate(size);
    YONDER_TRY_VOID(try_reserve(size));
    const Result<void> filled =
        fill(size, [](std::span<T> room) { std::uninitialized_value_construct(room.begin(), room.end()); });
    if (!filled) truncate(before);
    return filled;
  }
  void resize(std::size_t size) { expect(try_resize(size)); }

  Result<void> try_reserve(std::size_t items);
  void reserve(std::size_t items) { expect(try_reserve(items)); }
  void clear() {
    truncate(0);
    while (table_.count() != 0) table_.pop_back();
  }

  // Another vector with the same items.
  Result<vector> try_clone() const {
    vector copy;
    YONDER_TRY_VOID(copy.try_reserve(size_));
    for (const auto& chunk : chunks()) YONDER_TRY_VOID(copy.try_append(chunk.span()));
    return copy;
  }
  vector clone() const {
    Result<vector> copy = try_clone();
    if (!copy) internal::lost(copy.error());
    return std::move(*copy);
  }

 private:
  // What the first chunk begins with: less would be mostly bookkeeping.
  static constexpr std::size_t kFirstBytes = 64;

  static void expect(const Result<void>& done) {
    if (!done) [[unlikely]]
      internal::lost(done.error());
  }
  static T* item_at(std::byte* memory, std::size_t index) {
    return reinterpret_cast<T*>(memory) + Shape::place_in_chunk(index);
  }
  const internal::Block& block_of(std::size_t index) const {
    YONDER_CHECK(index < size_, "far::vector: index");
    return table_[Shape::chunk_of(index)];
  }
  template <internal::Access kAccess>
  std::byte* enter(std::size_t index, internal::PageHold& hold) const {
    return block_of(index).template enter<kAccess>(hold) + Shape::place_in_chunk(index) * sizeof(T);
  }
  std::size_t first_capacity() const { return table_.count() == 0 ? 0 : table_[0].bytes() / sizeof(T); }

  Result<void> grow_first(std::size_t items);
  template <typename F>
  Result<void> fill(std::size_t size, F&& construct);
  void truncate(std::size_t size);

  internal::BlockTable table_;
  std::size_t size_ = 0;
};

template <typename T, std::size_t kChunkBytes>
struct is_relocatable<vector<T, kChunkBytes>> : std::true_type {};

template <typename T, std::size_t kChunkBytes>
Result<void> vector<T, kChunkBytes>::try_reserve(std::size_t items) {
  require_relocatable<T>();
  if (items > first_capacity() && first_capacity() < Shape::kItems) YONDER_TRY_VOID(grow_first(items));
  while (capacity() < items) {
    YONDER_TRY(chunk, internal::Block::make(Shape::kItems * sizeof(T)));
    table_.push_back(std::move(chunk.block));
  }
  return {};
}

// Moves the items of the first chunk to a larger one.
template <typename T, std::size_t kChunkBytes>
Result<void> vector<T, kChunkBytes>::grow_first(std::size_t items) {
  const std::size_t least = std::max(items, kFirstBytes / sizeof(T));
  const std::size_t room = std::min(std::bit_ceil(std::max(least, std::size_t{1})), Shape::kItems);
  YONDER_TRY(larger, internal::Block::make(room * sizeof(T)));
  if (table_.count() == 0) {
    table_.push_back(std::move(larger.block));
    return {};
  }
  if (size_ != 0) {
    internal::PageHold hold;
    YONDER_TRY(memory, table_[0].template try_enter<internal::Access::kRead>(hold));
    std::memcpy(larger.memory, memory, size_ * sizeof(T));
  }
  table_.replace(0, std::move(larger.block));
  return {};
}

// Constructs items up to `size`, for which there is room: construct(span) for each chunk's part.
template <typename T, std::size_t kChunkBytes>
template <typename F>
Result<void> vector<T, kChunkBytes>::fill(std::size_t size, F&& construct) {
  while (size_ < size) {
    internal::PageHold hold;
    YONDER_TRY(memory, table_[Shape::chunk_of(size_)].template try_enter<internal::Access::kWrite>(hold));
    const std::size_t count = std::min(size - size_, Shape::kItems - Shape::place_in_chunk(size_));
    construct(std::span<T>(item_at(memory, size_), count));
    size_ += count;
  }
  return {};
}

// Drops the items from `size` on. One empty chunk stays, so that adding and removing at a
// border does not allocate each time.
template <typename T, std::size_t kChunkBytes>
void vector<T, kChunkBytes>::truncate(std::size_t size) {
  if constexpr (!std::is_trivially_destructible_v<T>) {
    for (const auto& chunk : all().subspan(size, size_ - size).chunks())
      std::destroy(chunk.begin(), chunk.end());
  }
  size_ = size;
  const std::size_t needed = Shape::chunk_of(size + Shape::kItems - 1);
  while (table_.count() > needed + 1) table_.pop_back();
}

}  // namespace yonder::heap
