#pragma once
// MpscQueue: a bounded queue from many threads to one.
//
// Every cell carries a ticket that says whose turn it is (the scheme of Dmitry
// Vyukov's bounded queue, with a consumer that needs no atomic of its own).
//
// States × operations for the cell that position p maps to (c: capacity):
//   ticket     means                           producer at p     consumer at p
//   p          free for the producer of p      takes p, fills    nothing there
//   p + 1      filled, to be popped            looks again       takes it, ticket p + c
//   < p        still used by p - c             full: refuses     nothing there
//   >= p + c   p was filled and popped         looks again       cannot be
//
// I1  A position is taken by exactly one producer: the CAS on tail_ gives it out,
//     and tail_ only grows.
// I2  Between taking p and storing ticket p + 1 (release) the cell is that
//     producer's; between loading p + 1 (acquire) and storing p + c (release) it
//     is the consumer's; the producer of p + c loads p + c (acquire) first.
// I3  Elements of one producer come out in the order it pushed them.
//
// A producer that stops between taking and filling holds up the consumer behind
// its cell (never a producer with room), so producers must not be suspended for
// ever inside try_push().
//
// Concurrency: try_push from any thread, pop from one. Lifetime: owns its
// elements; those left are destroyed with the queue.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/sync/atomics.h"

namespace yonder::sync {

template <typename T, typename Atomics = StdAtomics>
class MpscQueue {
 public:
  // Room for `capacity` elements. Requires a power of two of at least 2 (checked):
  // with one cell "filled" and "free for the next round" would be the same ticket.
  explicit MpscQueue(std::size_t capacity) : mask_(capacity - 1), cells_(std::make_unique<Cell[]>(capacity)) {
    YONDER_CHECK(capacity >= 2 && (capacity & mask_) == 0, "capacity is a power of two");
    for (std::size_t i = 0; i < capacity; ++i) cells_[i].ticket.store(i, std::memory_order_relaxed);
  }
  MpscQueue(const MpscQueue&) = delete;
  MpscQueue& operator=(const MpscQueue&) = delete;

  std::size_t capacity() const { return mask_ + 1; }

  // Any thread. False, and `value` untouched, if there is no room.
  bool try_push(T&& value) {
    Cell* const cell = take_position();
    if (cell == nullptr) return false;
    fill(*cell, std::move(value));
    return true;
  }
  bool try_push(const T& value) {
    T copy = value;
    return try_push(std::move(copy));
  }

  // The consumer. False, and `value` untouched, if nothing is ready.
  bool try_pop(T& value) { return pop(std::span(&value, 1)) == 1; }

  // The consumer. Moves up to values.size() elements out, oldest first; how many.
  std::size_t pop(std::span<T> values) {
    std::size_t count = 0;
    while (count < values.size() && pop_one(values[count])) ++count;
    return count;
  }

  // The consumer. Whether try_pop() would find nothing.
  bool empty() const { return cells_[head_ & mask_].ticket.load(std::memory_order_acquire) != head_ + 1; }

 private:
  struct Cell {
    typename Atomics::template Atomic<std::uint64_t> ticket{0};
    T value{};
  };

  // The cell of a position that is now ours, or null if the queue is full. The
  // loop ends because each further round means that another producer advanced.
  Cell* take_position() {
    std::uint64_t position = tail_.load(std::memory_order_relaxed);  // Stale: the CAS or the ticket tells.
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const std::uint64_t ticket = cell.ticket.load(std::memory_order_acquire);  // I2: pairs with pop_one().
      const auto turn = static_cast<std::int64_t>(ticket - position);
      if (turn < 0) return nullptr;
      if (turn > 0) {
        position = tail_.load(std::memory_order_relaxed);
        continue;
      }
      // Relaxed: the position carries no data, the ticket does (I2).
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed,
                                      std::memory_order_relaxed))
        return &cell;
    }
  }

  void fill(Cell& cell, T&& value) {
    const std::uint64_t position =
        cell.ticket.load(std::memory_order_relaxed);  // Ours: nobody changes it now.
    cell.value = std::move(value);
    cell.ticket.store(position + 1, std::memory_order_release);  // I2: pairs with pop_one().
  }

  bool pop_one(T& value) {
    Cell& cell = cells_[head_ & mask_];
    if (cell.ticket.load(std::memory_order_acquire) != head_ + 1) return false;  // I2: pairs with fill().
    value = std::move(cell.value);
    cell.ticket.store(head_ + capacity(), std::memory_order_release);  // I2: pairs with take_position().
    ++head_;
    return true;
  }

  // Read by all, written by nobody.
  const std::size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  // Written by producers.
  alignas(kNoSharingBytes) typename Atomics::template Atomic<std::uint64_t> tail_{0};
  // The consumer's own.
  alignas(kNoSharingBytes) std::uint64_t head_ = 0;
};

}  // namespace yonder::sync
