#pragma once
// SpscQueue: a bounded queue from one thread to one other.
//
// A ring with two counters that only grow. Each side keeps its own copy of the
// other's counter and looks at the real one only when the copy says "full" or
// "empty", so in the steady state a batch costs one shared cache line each way.
//
// States × operations (h: popped so far, t: pushed so far, c: capacity):
//   state        push                          pop
//   t-h = 0      stores cell t, t+1            nothing there
//   0 < t-h < c  stores cell t, t+1            takes cell h, h+1
//   t-h = c      refused                       takes cell h, h+1
//
// I1  0 <= t - h <= c always, h and t only grow; 64 bits do not wrap.
// I2  Cells [h, t) belong to the consumer, the others to the producer: a cell
//     changes hands only through the release store of a counter, which pairs with
//     the acquire load of the other side.
// I3  A stale copy of the other's counter is harmless: it is smaller than the
//     real one, so it shows less room or fewer elements than there are.
//
// Concurrency: one producer thread and one consumer thread; size() from any.
// Lifetime: owns its elements; those left are destroyed with the queue.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/sync/atomics.h"

namespace yonder::sync {

template <typename T, typename Atomics = StdAtomics>
class SpscQueue {
 public:
  // Room for `capacity` elements. Requires a power of two (checked).
  explicit SpscQueue(std::size_t capacity) : mask_(capacity - 1), cells_(std::make_unique<T[]>(capacity)) {
    YONDER_CHECK(capacity != 0 && (capacity & mask_) == 0, "capacity is a power of two");
  }
  SpscQueue(const SpscQueue&) = delete;
  SpscQueue& operator=(const SpscQueue&) = delete;

  std::size_t capacity() const { return mask_ + 1; }

  // Producer. False, and `value` untouched, if there is no room.
  bool try_push(T&& value) { return push(std::span(&value, 1)) == 1; }
  bool try_push(const T& value) {
    T copy = value;
    return try_push(std::move(copy));
  }

  // Producer. Moves as many of `values` in as there is room for, from the front;
  // how many. The consumer sees all of them at once.
  std::size_t push(std::span<T> values) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // Only we write it.
    if (tail + values.size() - head_seen_ > capacity())
      head_seen_ = head_.load(std::memory_order_acquire);  // I2: the freed cells are ours.
    const std::size_t count = std::min<std::size_t>(values.size(), capacity() - (tail - head_seen_));
    for (std::size_t i = 0; i < count; ++i) cells_[(tail + i) & mask_] = std::move(values[i]);
    if (count != 0)
      tail_.store(tail + count, std::memory_order_release);  // I2: pairs with the load in pop().
    return count;
  }

  // Consumer. False, and `value` untouched, if the queue is empty.
  bool try_pop(T& value) { return pop(std::span(&value, 1)) == 1; }

  // Consumer. Moves up to values.size() elements out, oldest first; how many.
  std::size_t pop(std::span<T> values) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);  // Only we write it.
    if (tail_seen_ - head < values.size())
      tail_seen_ = tail_.load(std::memory_order_acquire);  // I2: the filled cells are ours.
    const std::size_t count = std::min<std::size_t>(values.size(), tail_seen_ - head);
    for (std::size_t i = 0; i < count; ++i) values[i] = std::move(cells_[(head + i) & mask_]);
    if (count != 0)
      head_.store(head + count, std::memory_order_release);  // I2: pairs with the load in push().
    return count;
  }

  // About how many there are; exact for a thread that is alone. Head first: the
  // tail read later is not behind it.
  std::size_t size() const {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return std::min<std::size_t>(tail_.load(std::memory_order_acquire) - head, capacity());
  }
  bool empty() const { return size() == 0; }

 private:
  using Counter = typename Atomics::template Atomic<std::uint64_t>;

  // Read by both, written by neither.
  const std::size_t mask_;
  const std::unique_ptr<T[]> cells_;
  // Written by the producer.
  alignas(kNoSharingBytes) Counter tail_{0};
  std::uint64_t head_seen_ = 0;
  // Written by the consumer.
  alignas(kNoSharingBytes) Counter head_{0};
  std::uint64_t tail_seen_ = 0;
};

}  // namespace yonder::sync
