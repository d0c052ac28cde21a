#pragma once
// far::queue: first in, first out, in far memory.
//
// Items lie in chunks of a page, as those of a far::vector; a ring in local memory points to the
// chunks (8 bytes per 4 KiB, up to 16 while it has room). Only the first and the last chunk are
// used, so a long queue keeps two pages local; the chunk behind the first is asked for when the
// first is half empty, so that taking from a long queue seldom waits.
//
//   chunks   [ . . x x ]  [ x x x x ]  …  [ x x . . ]
//                head_                       tail: head_ + size_
//
// Errors: try_push returns kOutOfMemory (far memory is full, or all local memory is held) and
// those of the node, and the queue is as before; the others do what HeapOptions::on_lost says.
//
// Concurrency: one thread, or const calls by many.
// Lifetime: the heap outlives it. A guard on the front ends before the next pop.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/result.h"
#include "yonder/heap/guard.h"
#include "yonder/heap/internal/block.h"
#include "yonder/heap/relocatable.h"
#include "yonder/heap/span.h"

namespace yonder::heap {

template <typename T>
class queue {
  using Shape = internal::ChunkShape<T, kPageBytes>;
  using Access = internal::Access;

 public:
  using value_type = T;

  queue() = default;
  queue(queue&& other) noexcept
      : ring_(std::move(other.ring_)),
        room_(std::exchange(other.room_, 0)),
        first_(std::exchange(other.first_, 0)),
        chunks_(std::exchange(other.chunks_, 0)),
        head_(std::exchange(other.head_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  queue& operator=(queue&& other) noexcept {
    if (this != &other) {
      clear();
      ring_ = std::move(other.ring_);
      room_ = std::exchange(other.room_, 0);
      first_ = std::exchange(other.first_, 0);
      chunks_ = std::exchange(other.chunks_, 0);
      head_ = std::exchange(other.head_, 0);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~queue() { clear(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Local memory besides the queue itself.
  std::size_t local_bytes() const { return room_ * sizeof(internal::Block); }

  void push(T value) {
    if (const Result<void> pushed = try_push(std::move(value)); !pushed) internal::lost(pushed.error());
  }
  Result<void> try_push(T value);

  // The oldest item. These require !empty() (checked).
  ReadGuard<T> read_front() const {
    internal::PageHold hold;
    const T* const item = enter_front<Access::kRead>(hold);
    return {std::move(hold), item};
  }
  WriteGuard<T> write_front() {
    internal::PageHold hold;
    T* const item = enter_front<Access::kWrite>(hold);
    return {std::move(hold), item};
  }
  T pop();

  void clear();
  // Calls f(item) for each, the oldest first.
  template <typename F>
  void for_each(F&& f) const {
    walk<Access::kRead>([&](const T* items, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) f(items[i]);
    });
  }

 private:
  internal::Block& chunk(std::size_t number) const { return ring_[(first_ + number) & (room_ - 1)]; }
  template <Access kAccess>
  T* enter_front(internal::PageHold& hold) const {
    YONDER_CHECK(size_ != 0, "far::queue: the front of an empty one");
    return reinterpret_cast<T*>(chunk(0).template enter<kAccess>(hold)) + head_;
  }
  Result<void> add_chunk();
  void drop_first_chunk();
  template <Access kAccess, typename F>
  void walk(F&& f) const;

  std::unique_ptr<internal::Block[]> ring_;
  std::size_t room_ = 0;    // Of the ring: none, or a power of two.
  std::size_t first_ = 0;   // Where in the ring the first chunk is.
  std::size_t chunks_ = 0;  // In the ring.
  std::size_t head_ = 0;    // Where in the first chunk the oldest item is.
  std::size_t size_ = 0;
};

template <typename T>
struct is_relocatable<queue<T>> : std::true_type {};

template <typename T>
Result<void> queue<T>::try_push(T value) {
  const std::size_t at = head_ + size_;
  if (Shape::chunk_of(at) == chunks_) YONDER_TRY_VOID(add_chunk());
  internal::PageHold hold;
  YONDER_TRY(memory, chunk(Shape::chunk_of(at)).template try_enter<Access::kWrite>(hold));
  std::construct_at(reinterpret_cast<T*>(memory) + Shape::place_in_chunk(at), std::move(value));
  ++size_;
  return {};
}

template <typename T>
T queue<T>::pop() {
  internal::PageHold hold;
  T* const item = enter_front<Access::kWrite>(hold);
  T value = std::move(*item);
  std::destroy_at(item);
  hold.reset();
  --size_;
  ++head_;
  if (head_ == Shape::kItems) {
    drop_first_chunk();
  } else if (head_ == Shape::kItems / 2 && chunks_ > 1) {
    chunk(1).prefetch();
  }
  return value;
}

template <typename T>
Result<void> queue<T>::add_chunk() {
  require_relocatable<T>();
  YONDER_TRY(fresh, internal::Block::make(Shape::kItems * sizeof(T)));
  if (chunks_ == room_) {
    const std::size_t room = std::max<std::size_t>(2 * room_, 2);
    auto ring = std::make_unique<internal::Block[]>(room);
    for (std::size_t i = 0; i < chunks_; ++i) ring[i] = std::move(chunk(i));
    ring_ = std::move(ring);
    room_ = room;
    first_ = 0;
  }
  chunk(chunks_++) = std::move(fresh.block);
  return {};
}

template <typename T>
void queue<T>::drop_first_chunk() {
  chunk(0).reset();
  first_ = (first_ + 1) & (room_ - 1);
  --chunks_;
  head_ = 0;
}

template <typename T>
void queue<T>::clear() {
  if constexpr (!std::is_trivially_destructible_v<T>)
    walk<Access::kWrite>([](T* items, std::size_t count) { std::destroy_n(items, count); });
  size_ = 0;
  while (chunks_ != 0) drop_first_chunk();
  head_ = 0;
  ring_.reset();
  room_ = first_ = 0;
}

template <typename T>
template <internal::Access kAccess, typename F>
void queue<T>::walk(F&& f) const {
  for (std::size_t at = head_; at < head_ + size_;) {
    const std::size_t number = Shape::chunk_of(at);
    if (number + 1 < chunks_) chunk(number + 1).prefetch();
    internal::PageHold hold;
    T* const items = reinterpret_cast<T*>(chunk(number).template enter<kAccess>(hold));
    const std::size_t end = std::min(head_ + size_, (number + 1) << Shape::kShift);
    f(items + Shape::place_in_chunk(at), end - at);
    at = end;
  }
}

}  // namespace yonder::heap
