#pragma once
// far::unique_ptr: owns one object, or one array, in far memory.
//
//   auto node = far::make_unique<Node>(7, std::move(rest));
//   node.read()->value;                           // a guard, for reading
//   node.write()->value = 8;                      // a guard, for writing
//   auto row = far::make_unique<float[]>(1000);   // an array of at most a page
//   for (float x : row.read()) …
//
// 64 bits (pointer_word.h); may itself lie in a far object, so lists, trees and graphs do. The
// object is destroyed and its memory freed with the pointer, wherever it is: an object whose
// destructor does something is brought in for that, others are not.
//
//   state   | read, write      | reset, destruction | move from
//   --------+------------------+--------------------+-----------
//   empty   | aborts           | nothing            | empty
//   owns    | a guard          | object is gone     | empty
//
// read() and write() wait for the node up to HeapOptions::timeout and then do what
// HeapOptions::on_lost says; try_read() and try_write() return the error: kDeadlineExceeded,
// kConnectionLost (the node), kOutOfMemory (all local memory is held).
//
// Concurrency: as std::unique_ptr: any number of threads may read() and write() through one
// pointer at the same time (what they do with the object is their affair); changing the pointer
// itself needs that nobody else uses it.
// Lifetime: the heap outlives it. A guard ends before the object does.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/result.h"
#include "yonder/heap/guard.h"
#include "yonder/heap/internal/barrier.h"
#include "yonder/heap/relocatable.h"

namespace yonder::heap {

namespace internal {

// The word of a pointer, and what all kinds of pointers do with it.
class PointerCell {
 public:
  PointerCell() = default;
  explicit PointerCell(std::uint64_t word) : word_(word) {}
  PointerCell(PointerCell&& other) noexcept : word_(other.take()) {}
  PointerCell& operator=(PointerCell&&) = delete;

  bool empty() const { return load() == 0; }
  std::uint64_t load() const { return word_.load(std::memory_order_acquire); }
  void store(std::uint64_t word) { word_.store(word, std::memory_order_release); }
  // relaxed exchange: nobody else uses a pointer that is being changed.
  std::uint64_t take() {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    word_.store(0, std::memory_order_relaxed);
    return word;
  }
  std::size_t bytes() const { return PointerWord{load()}.bytes(); }

  template <Access kAccess>
  Entered enter() const {
    return internal::enter<kAccess>(word_);
  }
  template <Access kAccess>
  Result<Entered> try_enter() const {
    Entered entered;
    if (enter_fast<kAccess>(word_, entered)) return entered;
    return try_enter_slow(word_, kAccess);
  }
  void prefetch(std::size_t offset = 0) const { internal::prefetch(word_, offset); }

 private:
  // Bringing the object in changes where the pointer says it is, not what it points to.
  mutable std::atomic<std::uint64_t> word_{0};
};

}  // namespace internal

// An object, or (T = Item[]) an array of at most a page, whose length is in the pointer.
template <typename T>
class unique_ptr {
  using Item = std::remove_extent_t<T>;
  static constexpr bool kIsArray = std::is_unbounded_array_v<T>;
  // Not asked of objects: a class may hold pointers to itself, and is not complete here.
  static_assert(std::disjunction_v<std::bool_constant<!kIsArray>, std::is_trivially_copyable<Item>>,
                "far arrays are of plain data; use far::vector for others");

 public:
  using element_type = Item;

  constexpr unique_ptr() = default;
  constexpr unique_ptr(std::nullptr_t) {}  // NOLINT: as std::unique_ptr
  unique_ptr(unique_ptr&& other) noexcept = default;
  unique_ptr& operator=(unique_ptr&& other) noexcept {
    if (this != &other) {
      const std::uint64_t word = other.cell_.take();
      reset();
      cell_.store(word);
    }
    return *this;
  }
  unique_ptr& operator=(std::nullptr_t) {
    reset();
    return *this;
  }
  ~unique_ptr() { reset(); }

  explicit operator bool() const { return !cell_.empty(); }
  std::size_t size() const
    requires(kIsArray)
  {
    return cell_.empty() ? 0 : cell_.bytes() / sizeof(Item);
  }
  static constexpr std::size_t max_size()
    requires(kIsArray)
  {
    return kPageBytes / sizeof(Item);
  }

  ReadGuard<T> read() const {
    const internal::Entered entered = cell_.template enter<internal::Access::kRead>();
    return {internal::PageHold(entered.hold), seen<const Item>(entered)};
  }
  WriteGuard<T> write() const {
    const internal::Entered entered = cell_.template enter<internal::Access::kWrite>();
    return {internal::PageHold(entered.hold), seen<Item>(entered)};
  }
  Result<ReadGuard<T>> try_read() const {
    YONDER_TRY(entered, cell_.template try_enter<internal::Access::kRead>());
    return ReadGuard<T>(internal::PageHold(entered.hold), seen<const Item>(entered));
  }
  Result<WriteGuard<T>> try_write() const {
    YONDER_TRY(entered, cell_.template try_enter<internal::Access::kWrite>());
    return WriteGuard<T>(internal::PageHold(entered.hold), seen<Item>(entered));
  }

  // A guard that may be long: for a buffer that goes to a system call or to another thread, where
  // it may end. Costs a locked instruction, and its page does not leave meanwhile.
  Result<WriteGuard<T>> pin() const {
    YONDER_TRY(entered, cell_.template try_enter<internal::Access::kWrite>());
    return WriteGuard<T>(internal::PageHold(internal::pinned(entered)), seen<Item>(entered));
  }

  // The object will be needed soon. Never waits.
  void prefetch() const { cell_.prefetch(); }
  // Of an array: this item.
  void prefetch(std::size_t item) const
    requires(kIsArray)
  {
    cell_.prefetch(item * sizeof(Item));
  }
  // The object is local when this returns, and was used just now.
  Result<void> prefault() const {
    YONDER_TRY(guard, try_read());
    (void)guard;
    return {};
  }

  void reset() {
    if (cell_.empty()) return;
    if constexpr (!std::is_trivially_destructible_v<Item>) {
      const WriteGuard<T> object = write();
      std::destroy_at(object.get());
    }
    internal::free_object(cell_.take());
  }
  void swap(unique_ptr& other) noexcept {
    const std::uint64_t word = cell_.take();
    cell_.store(other.cell_.take());
    other.cell_.store(word);
  }

 private:
  template <typename U, typename... Args>
  friend Result<unique_ptr<U>> try_make_unique(Args&&... args);
  template <typename U>
  friend Result<unique_ptr<U>> try_make_unique_array(std::size_t items);
  template <typename U>
  friend class shared_ptr;

  explicit unique_ptr(std::uint64_t word) : cell_(word) {}

  // What a guard shows: the object, or all items.
  template <typename As>
  static auto seen(const internal::Entered& entered) {
    auto* const first = reinterpret_cast<As*>(entered.object);
    if constexpr (kIsArray) {
      return std::span<As>(first, entered.bytes / sizeof(Item));
    } else {
      return first;
    }
  }

  internal::PointerCell cell_;
};

template <typename T>
struct is_relocatable<unique_ptr<T>> : std::true_type {};
static_assert(sizeof(unique_ptr<int>) == 8 && sizeof(unique_ptr<int[]>) == 8);

// A new object. Errors: kOutOfMemory (far memory is full, or all local memory is held), and
// those of the node. What a constructor throws passes through; nothing is allocated then.
template <typename T, typename... Args>
Result<unique_ptr<T>> try_make_unique(Args&&... args) {
  require_relocatable<T>();
  static_assert(sizeof(T) <= kPageBytes, "far memory: larger than a page; use far::vector or far::make_huge");
  internal::PageHold hold;
  YONDER_TRY(placed, internal::allocate(sizeof(T), false, hold));
  try {
    std::construct_at(reinterpret_cast<T*>(placed.bytes), std::forward<Args>(args)...);
  } catch (...) {
    hold.reset();
    internal::free_object(placed.word.bits);
    throw;
  }
  return unique_ptr<T>(placed.word.bits);
}

// An array of `items` zeroes. kInvalidArgument: none, or more than a page of them.
template <typename T>
Result<unique_ptr<T>> try_make_unique_array(std::size_t items) {
  using Item = std::remove_extent_t<T>;
  if (items == 0 || items > unique_ptr<T>::max_size())
    return fail(ErrorCode::kInvalidArgument, "far array: its length", static_cast<std::int64_t>(items));
  internal::PageHold hold;
  YONDER_TRY(placed, internal::allocate(items * sizeof(Item), false, hold));
  std::uninitialized_value_construct_n(reinterpret_cast<Item*>(placed.bytes), items);
  return unique_ptr<T>(placed.word.bits);
}

// The same for callers without a plan for errors: HeapOptions::on_lost decides.
template <typename T, typename... Args>
  requires(!std::is_array_v<T>)
unique_ptr<T> make_unique(Args&&... args) {
  Result<unique_ptr<T>> made = try_make_unique<T>(std::forward<Args>(args)...);
  if (!made) internal::lost(made.error());
  return std::move(*made);
}
template <typename T>
  requires(std::is_unbounded_array_v<T>)
unique_ptr<T> make_unique(std::size_t items) {
  Result<unique_ptr<T>> made = try_make_unique_array<T>(items);
  if (!made) internal::lost(made.error());
  return std::move(*made);
}

}  // namespace yonder::heap
