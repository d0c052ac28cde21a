#pragma once
// Two memories for one program: the workloads are written once, over a *memory policy*, and run
// on far pointers (`Far`) and on the pointers everybody uses (`Plain`).
//
//   template <typename Memory>
//   struct Entry {
//     std::uint64_t key;
//     typename Memory::template Ptr<Entry> next;
//   };
//
// A policy has Ptr<T> and Ptr<T[]> (owning, 8 bytes, movable, with read() and write() that return
// something to be used like a pointer or a span), make<T>(…), and make_array<T>(n).
//
// `Plain` is malloc and free, and read() is nothing: the compiler sees a load. It is what the
// cost of far pointers is measured against, and what runs on the kernel's swap.
//
// Concurrency and lifetime: as far::unique_ptr and std::unique_ptr.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "yonder/heap/heap.h"
#include "yonder/heap/unique_ptr.h"

namespace yonder::bench::heap {

struct Far {
  static constexpr bool kIsFar = true;
  template <typename T>
  using Ptr = far::unique_ptr<T>;
  template <typename T, typename... Args>
  static Ptr<T> make(Args&&... args) {
    return far::make_unique<T>(std::forward<Args>(args)...);
  }
  template <typename T>
  static Ptr<T[]> make_array(std::size_t items) {
    return far::make_unique<T[]>(items);
  }
};

template <typename T>
class PlainPtr {
 public:
  PlainPtr() = default;
  explicit PlainPtr(std::unique_ptr<T> object) : object_(std::move(object)) {}
  explicit operator bool() const { return object_ != nullptr; }
  const T* read() const { return object_.get(); }
  T* write() const { return object_.get(); }
  void prefetch() const { __builtin_prefetch(object_.get()); }
  void reset() { object_.reset(); }

 private:
  std::unique_ptr<T> object_;
};

// As a far array it knows its length in 8 bytes: the upper 16 bits of an address are free.
template <typename T>
class PlainPtr<T[]> {
 public:
  PlainPtr() = default;
  explicit PlainPtr(std::size_t items)
      : bits_(reinterpret_cast<std::uint64_t>(new T[items]()) | std::uint64_t{items} << kAddressBits) {}
  PlainPtr(PlainPtr&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  PlainPtr& operator=(PlainPtr&& other) noexcept {
    PlainPtr gone(std::move(*this));
    bits_ = std::exchange(other.bits_, 0);
    return *this;
  }
  ~PlainPtr() { delete[] data(); }

  explicit operator bool() const { return bits_ != 0; }
  std::size_t size() const { return bits_ >> kAddressBits; }
  std::span<const T> read() const { return {data(), size()}; }
  std::span<T> write() const { return {data(), size()}; }
  void prefetch() const { __builtin_prefetch(data()); }
  void reset() { PlainPtr gone(std::move(*this)); }

 private:
  static constexpr unsigned kAddressBits = 48;
  T* data() const { return reinterpret_cast<T*>(bits_ & ((std::uint64_t{1} << kAddressBits) - 1)); }

  std::uint64_t bits_ = 0;
};
static_assert(sizeof(PlainPtr<int>) == 8 && sizeof(PlainPtr<int[]>) == 8);

struct Plain {
  static constexpr bool kIsFar = false;
  template <typename T>
  using Ptr = PlainPtr<T>;
  template <typename T, typename... Args>
  static Ptr<T> make(Args&&... args) {
    return Ptr<T>(std::make_unique<T>(std::forward<Args>(args)...));
  }
  template <typename T>
  static Ptr<T[]> make_array(std::size_t items) {
    return Ptr<T[]>(items);
  }
};

}  // namespace yonder::bench::heap
