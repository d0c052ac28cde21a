#pragma once
// far::huge_ptr: owns one object, or one array, that is larger than a page.
//
//   auto heap = far::Heap::create({…, .huge = Bytes(64_GiB), .huge_local = Bytes(4_GiB)});
//   auto matrix = far::make_huge<float[]>(std::size_t{1} << 30);
//   matrix[123] = 0.5f;                          // plain memory
//   std::ranges::sort(matrix.span());            // any code that knows nothing of far memory
//
// Pages of it that are not here come when they are touched, by a page fault that the toucher
// serves (paged_space.h), with those that follow if they are part of a stream; they leave
// when the budget is used up. So there are no guards: addresses stay valid as long as the
// object lives, and it never moves. The price is a fault of microseconds instead of a
// barrier of nanoseconds: for small objects use far::unique_ptr, for many items that come
// and go far::vector.
//
//   state   | get, *, [], span | reset, destruction     | move from
//   --------+------------------+------------------------+-----------
//   empty   | null, no items   | nothing                | empty
//   owns    | the object       | destroyed, pages freed | empty
//
// Freed pages cost nothing, here and on the node, and are zero for the next owner.
//
// Any type may live here, far pointers among its members too; and a huge_ptr may itself lie
// in a far object. The node away: a fault waits up to HeapOptions::timeout (for ever with
// wait_for_node) and then the process dies of SIGBUS, with a line that says why: memory
// cannot return an error. Who wants one pins first: pin() returns it.
//
// Concurrency: as std::unique_ptr, and as any memory.
// Lifetime: the heap outlives it (checked).

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/result.h"
#include "yonder/heap/internal/barrier.h"
#include "yonder/heap/paged_space.h"
#include "yonder/heap/relocatable.h"

namespace yonder::heap {

namespace internal {

Result<std::byte*> allocate_huge(std::size_t bytes);
void free_huge(std::byte* memory, std::size_t bytes);
Result<PagedSpace::Pin> pin_huge(std::span<const std::byte> bytes);

// The items of a huge object; one of them is an object.
template <typename T>
class HugeItems {
 public:
  constexpr HugeItems() = default;
  HugeItems(T* items, std::size_t count) : items_(items), count_(count) {}
  HugeItems(HugeItems&& other) noexcept
      : items_(std::exchange(other.items_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  HugeItems& operator=(HugeItems&& other) noexcept {
    if (this != &other) {
      reset();
      items_ = std::exchange(other.items_, nullptr);
      count_ = std::exchange(other.count_, 0);
    }
    return *this;
  }
  ~HugeItems() { reset(); }

  void reset() {
    if (items_ == nullptr) return;
    T* const items = std::exchange(items_, nullptr);
    const std::size_t count = std::exchange(count_, 0);
    std::destroy_n(items, count);
    free_huge(reinterpret_cast<std::byte*>(items), count * sizeof(T));
  }

  T* data() const { return items_; }
  std::size_t size() const { return count_; }

 private:
  T* items_ = nullptr;
  std::size_t count_ = 0;
};

// Gives the memory back unless the object came to be.
class HugeRoom {
 public:
  HugeRoom(std::byte* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
  HugeRoom(const HugeRoom&) = delete;
  HugeRoom& operator=(const HugeRoom&) = delete;
  ~HugeRoom() {
    if (memory_ != nullptr) free_huge(memory_, bytes_);
  }
  std::byte* memory() const { return memory_; }
  void keep() { memory_ = nullptr; }

 private:
  std::byte* memory_;
  std::size_t bytes_;
};

}  // namespace internal

template <typename T>
class huge_ptr {
  static_assert(alignof(T) <= kPageBytes, "far memory: huge objects are aligned to a page");

 public:
  using element_type = T;

  constexpr huge_ptr() = default;
  constexpr huge_ptr(std::nullptr_t) {}  // NOLINT: as std::unique_ptr

  explicit operator bool() const { return get() != nullptr; }
  T* get() const { return items_.data(); }
  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }
  void reset() { items_.reset(); }

  // For a system call: the object is here, and may be written, while the pin lives. Errors:
  // those of PagedSpace::pin(), and kInvalidArgument (there is no object).
  Result<PagedSpace::Pin> pin() const {
    if (!*this) return fail(ErrorCode::kInvalidArgument, "far heap: pin of no object");
    return internal::pin_huge(std::as_bytes(std::span(get(), 1)));
  }

 private:
  template <typename U, typename... Args>
    requires(!std::is_array_v<U>)
  friend Result<huge_ptr<U>> try_make_huge(Args&&... args);

  explicit huge_ptr(T* object) : items_(object, 1) {}
  internal::HugeItems<T> items_;
};

template <typename T>
class huge_ptr<T[]> {
  static_assert(alignof(T) <= kPageBytes, "far memory: huge objects are aligned to a page");

 public:
  using element_type = T;

  constexpr huge_ptr() = default;
  constexpr huge_ptr(std::nullptr_t) {}  // NOLINT: as std::unique_ptr

  explicit operator bool() const { return data() != nullptr; }
  T* data() const { return items_.data(); }
  std::size_t size() const { return items_.size(); }
  T& operator[](std::size_t index) const {
    YONDER_DCHECK(index < size(), "an item of the array");
    return data()[index];
  }
  std::span<T> span() const { return {data(), size()}; }
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  void reset() { items_.reset(); }

  // The same for `count` items from `first` on: what goes to one system call should not exceed a
  // quarter of huge_local. kInvalidArgument: they are not all of the array, or none.
  Result<PagedSpace::Pin> pin(std::size_t first, std::size_t count) const {
    if (count == 0 || first > size() || count > size() - first)
      return fail(ErrorCode::kInvalidArgument, "far heap: pin of items that the array has not");
    return internal::pin_huge(std::as_bytes(span().subspan(first, count)));
  }

 private:
  template <typename U>
    requires(std::is_unbounded_array_v<U>)
  friend Result<huge_ptr<U>> try_make_huge(std::size_t items);

  huge_ptr(T* items, std::size_t count) : items_(items, count) {}
  internal::HugeItems<T> items_;
};

template <typename T>
using huge_array = huge_ptr<T[]>;

template <typename T>
struct is_relocatable<huge_ptr<T>> : std::true_type {};

// A new object. Errors: kOutOfMemory (no run of free pages is so long, or the heap has no memory
// for huge objects). What the constructor throws passes through; nothing is allocated then.
template <typename T, typename... Args>
  requires(!std::is_array_v<T>)
Result<huge_ptr<T>> try_make_huge(Args&&... args) {
  YONDER_TRY(memory, internal::allocate_huge(sizeof(T)));
  internal::HugeRoom room(memory, sizeof(T));
  T* const object = std::construct_at(reinterpret_cast<T*>(memory), std::forward<Args>(args)...);
  room.keep();
  return huge_ptr<T>(object);
}

// An array of T{}. Where that is all zeros (plain data; but no pointers to members) no page is
// touched: it comes to be with its first use. Errors: as above, and kInvalidArgument (no items,
// or more than fit into an address space).
template <typename T>
  requires(std::is_unbounded_array_v<T>)
Result<huge_ptr<T>> try_make_huge(std::size_t items) {
  using Item = std::remove_extent_t<T>;
  if (items == 0 || items > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(Item))
    return fail(ErrorCode::kInvalidArgument, "far heap: length of a huge array",
                static_cast<std::int64_t>(items));
  const std::size_t bytes = items * sizeof(Item);
  YONDER_TRY(memory, internal::allocate_huge(bytes));
  internal::HugeRoom room(memory, bytes);
  auto* const first = reinterpret_cast<Item*>(memory);
  if constexpr (!(std::is_trivially_default_constructible_v<Item> && std::is_trivially_copyable_v<Item>))
    std::uninitialized_value_construct_n(first, items);
  room.keep();
  return huge_ptr<T>(first, items);
}

// The same for callers without a plan for errors: HeapOptions::on_lost decides.
template <typename T, typename... Args>
huge_ptr<T> make_huge(Args&&... args) {
  Result<huge_ptr<T>> made = try_make_huge<T>(std::forward<Args>(args)...);
  if (!made) internal::lost(made.error());
  return std::move(*made);
}

}  // namespace yonder::heap
