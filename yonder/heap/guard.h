#pragma once
// Guards: an object that is local and stays where it is, for as long as the guard lives.
//
//   auto order = pointer.read();      // ReadGuard<Order>
//   use(order->price);                // plain memory access from here on
//
// Guards are cheap (a plain store to begin, one to end), nest, and may end in any order. The
// page of the object cannot leave meanwhile: hold few and for short; a program that holds all
// its local memory gets kOutOfMemory from what it asks for next.
//
// Concurrency: a guard belongs to the thread that made it. Two threads may hold the same
// object; as with any memory, writing needs agreement between them.
// Lifetime: ends before the pointer's object is freed, and before the thread leaves the heap.

#include <cstddef>
#include <span>
#include <utility>

#include "yonder/heap/internal/thread_state.h"

namespace yonder::heap {

template <typename T>
class [[nodiscard]] Guard {
 public:
  Guard() = default;
  Guard(internal::PageHold hold, T* object) : hold_(std::move(hold)), object_(object) {}
  Guard(Guard&& other) noexcept
      : hold_(std::move(other.hold_)), object_(std::exchange(other.object_, nullptr)) {}
  Guard& operator=(Guard&& other) noexcept {
    hold_ = std::move(other.hold_);
    object_ = std::exchange(other.object_, nullptr);
    return *this;
  }

  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  T* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // Lets go before the end of the scope.
  void reset() {
    hold_.reset();
    object_ = nullptr;
  }

 private:
  internal::PageHold hold_;
  T* object_ = nullptr;
};

// An array.
template <typename T>
class [[nodiscard]] Guard<T[]> {
 public:
  Guard() = default;
  Guard(internal::PageHold hold, std::span<T> items) : hold_(std::move(hold)), items_(items) {}
  Guard(Guard&& other) noexcept : hold_(std::move(other.hold_)), items_(std::exchange(other.items_, {})) {}
  Guard& operator=(Guard&& other) noexcept {
    hold_ = std::move(other.hold_);
    items_ = std::exchange(other.items_, {});
    return *this;
  }

  T& operator[](std::size_t index) const { return items_[index]; }
  std::span<T> span() const { return items_; }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::size_t size() const { return items_.size(); }
  T* data() const { return items_.data(); }
  void reset() {
    hold_.reset();
    items_ = {};
  }

 private:
  internal::PageHold hold_;
  std::span<T> items_;
};

template <typename T>
using WriteGuard = Guard<T>;

namespace internal {
template <typename T>
struct Readable {
  using type = const T;
};
template <typename T>
struct Readable<T[]> {
  using type = const T[];
};
}  // namespace internal

template <typename T>
using ReadGuard = Guard<typename internal::Readable<T>::type>;

}  // namespace yonder::heap

namespace yonder {
// far::unique_ptr, far::vector: how users spell it.
namespace far = heap;
}  // namespace yonder
