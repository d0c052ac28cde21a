#pragma once
// Two memories for one program: the workloads are written once, over a *memory policy*, and run
// on far pointers (`Far`) and on the pointers everybody uses (`Plain`, `Faulted`).
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
// cost of far pointers is measured against, and what runs on the kernel's swap. `Faulted` is the
// same program on memory that is paged by faults (far::PagedArena).
//
// Concurrency and lifetime: as far::unique_ptr and std::unique_ptr.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/paged_arena.h"
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

// Where plain pointers have their memory.
struct Malloc {
  static void* allocate(std::size_t bytes) { return ::operator new(bytes); }
  static void free(void* object) { ::operator delete(object); }
};
// Memory that comes and goes by page faults: what a program that knows nothing of far memory has
// under `yonder run`. There is one at a time; set before the first use.
struct FaultedMemory {
  static inline far::PagedArena* arena = nullptr;
  static void* allocate(std::size_t bytes) {
    void* const object = arena->allocate(bytes);
    YONDER_CHECK(object != nullptr, "the paged memory of a benchmark is large enough");
    return object;
  }
  static void free(void* object) { arena->free(object); }
};

template <typename T, typename Source>
class PlainPtr {
 public:
  PlainPtr() = default;
  explicit PlainPtr(T* object) : object_(object) {}
  explicit operator bool() const { return object_ != nullptr; }
  const T* read() const { return object_.get(); }
  T* write() const { return object_.get(); }
  void prefetch() const { __builtin_prefetch(object_.get()); }
  void reset() { object_.reset(); }

 private:
  struct Delete {
    void operator()(T* object) const {
      std::destroy_at(object);
      Source::free(object);
    }
  };
  std::unique_ptr<T, Delete> object_;
};

// As a far array it knows its length in 8 bytes: the upper 16 bits of an address are free.
template <typename T, typename Source>
class PlainPtr<T[], Source> {
  static_assert(std::is_trivially_copyable_v<T>, "as far arrays");

 public:
  PlainPtr() = default;
  explicit PlainPtr(std::size_t items) {
    T* const first = static_cast<T*>(Source::allocate(items * sizeof(T)));
    std::uninitialized_value_construct_n(first, items);
    bits_ = reinterpret_cast<std::uint64_t>(first) | std::uint64_t{items} << kAddressBits;
  }
  PlainPtr(PlainPtr&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  PlainPtr& operator=(PlainPtr&& other) noexcept {
    PlainPtr gone(std::move(*this));
    bits_ = std::exchange(other.bits_, 0);
    return *this;
  }
  ~PlainPtr() {
    if (bits_ != 0) Source::free(data());
  }

  explicit operator bool() const { return bits_ != 0; }
  std::size_t size() const { return bits_ >> kAddressBits; }
  std::span<const T> read() const { return {data(), size()}; }
  std::span<T> write() const { return {data(), size()}; }
  void prefetch(std::size_t item = 0) const { __builtin_prefetch(data() + item); }
  void reset() { PlainPtr gone(std::move(*this)); }

 private:
  static constexpr unsigned kAddressBits = 48;
  T* data() const { return reinterpret_cast<T*>(bits_ & ((std::uint64_t{1} << kAddressBits) - 1)); }

  std::uint64_t bits_ = 0;
};

template <typename Source>
struct PlainMemory {
  static constexpr bool kIsFar = false;
  template <typename T>
  using Ptr = PlainPtr<T, Source>;
  template <typename T, typename... Args>
  static Ptr<T> make(Args&&... args) {
    return Ptr<T>(
        std::construct_at(static_cast<T*>(Source::allocate(sizeof(T))), std::forward<Args>(args)...));
  }
  template <typename T>
  static Ptr<T[]> make_array(std::size_t items) {
    return Ptr<T[]>(items);
  }
};
using Plain = PlainMemory<Malloc>;
using Faulted = PlainMemory<FaultedMemory>;
static_assert(sizeof(Plain::Ptr<int>) == 8 && sizeof(Plain::Ptr<int[]>) == 8);

}  // namespace yonder::bench::heap
