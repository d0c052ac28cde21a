#pragma once
// far::shared_ptr: one of several owners of an object in far memory.
//
//   auto page = far::make_shared<Page>(…);
//   far::shared_ptr<Page> also = page;            // counts
//   page.read()->title;
//
// 64 bits, as far::unique_ptr, and may lie in far objects. Owners do not point to the object
// but to a control block, 16 far bytes with the number of owners and the one pointer to the
// object. Control blocks lie in pages whose objects never move (page_entry.h, `fixed`): so the
// object can be fetched alone and moved as any other, and only one word changes, however many
// owners there are. Atlas chains all owners instead and updates each of them at every move; that
// needs every owner's address, also of those that are far away themselves.
//
// Concurrency: as std::shared_ptr: different owners of one object may be used, copied and
// destroyed by different threads; one owner by one thread at a time unless all only read.
// Lifetime: the object goes with its last owner. Cycles are never freed.

#include <atomic>
#include <cstdint>
#include <utility>

#include "yonder/heap/unique_ptr.h"

namespace yonder::heap {

namespace internal {

template <typename T>
struct SharedControl {
  explicit SharedControl(unique_ptr<T> owned) : object(std::move(owned)) {}
  std::atomic<std::uint64_t> owners{1};
  unique_ptr<T> object;
};

}  // namespace internal

template <typename T>
class shared_ptr {
  using Control = internal::SharedControl<T>;
  static_assert(sizeof(Control) == kGranuleBytes);

 public:
  using element_type = T;

  constexpr shared_ptr() = default;
  constexpr shared_ptr(std::nullptr_t) {}  // NOLINT: as std::shared_ptr
  shared_ptr(const shared_ptr& other) { share(other); }
  shared_ptr(shared_ptr&& other) noexcept = default;
  shared_ptr& operator=(const shared_ptr& other) {
    if (this != &other) {
      shared_ptr copy(other);
      swap(copy);
    }
    return *this;
  }
  shared_ptr& operator=(shared_ptr&& other) noexcept {
    if (this != &other) {
      shared_ptr taken(std::move(other));
      swap(taken);
    }
    return *this;
  }
  ~shared_ptr() { reset(); }

  explicit operator bool() const { return !cell_.empty(); }
  // Whether both own the same object.
  friend bool operator==(const shared_ptr& a, const shared_ptr& b) {
    return a.cell_.load() == b.cell_.load();
  }

  // As far::unique_ptr. The control block is held only until the object is.
  ReadGuard<T> read() const { return control<internal::Access::kRead>()->object.read(); }
  WriteGuard<T> write() const { return control<internal::Access::kRead>()->object.write(); }
  Result<ReadGuard<T>> try_read() const {
    YONDER_TRY(block, cell_.template try_enter<internal::Access::kRead>());
    const internal::PageHold hold(block.hold);
    return reinterpret_cast<const Control*>(block.object)->object.try_read();
  }
  Result<WriteGuard<T>> try_write() const {
    YONDER_TRY(block, cell_.template try_enter<internal::Access::kRead>());
    const internal::PageHold hold(block.hold);
    return reinterpret_cast<const Control*>(block.object)->object.try_write();
  }

  // How many owners there are now.
  std::uint64_t use_count() const {
    return *this ? control<internal::Access::kRead>()->owners.load(std::memory_order_relaxed) : 0;
  }

  void reset() {
    if (cell_.empty()) return;
    {
      const Guard<Control> block = control<internal::Access::kWrite>();
      // acq_rel: the last owner sees what all others did with the object.
      if (block->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) {
        (void)cell_.take();
        return;
      }
      std::destroy_at(block.get());
    }
    internal::free_object(cell_.take());
  }
  void swap(shared_ptr& other) noexcept {
    const std::uint64_t word = cell_.take();
    cell_.store(other.cell_.take());
    other.cell_.store(word);
  }

 private:
  template <typename U, typename... Args>
  friend Result<shared_ptr<U>> try_make_shared(Args&&... args);

  explicit shared_ptr(std::uint64_t word) : cell_(word) {}

  template <internal::Access kAccess>
  Guard<Control> control() const {
    const internal::Entered block = cell_.template enter<kAccess>();
    return {internal::PageHold(block.hold), reinterpret_cast<Control*>(block.object)};
  }
  void share(const shared_ptr& other) {
    if (!other) return;
    // relaxed: `other` is an owner, so the count cannot reach zero meanwhile.
    other.template control<internal::Access::kWrite>()->owners.fetch_add(1, std::memory_order_relaxed);
    cell_.store(other.cell_.load());
  }

  internal::PointerCell cell_;
};

template <typename T>
struct is_relocatable<shared_ptr<T>> : std::true_type {};

// Errors as try_make_unique.
template <typename T, typename... Args>
Result<shared_ptr<T>> try_make_shared(Args&&... args) {
  using Control = internal::SharedControl<T>;
  YONDER_TRY(object, try_make_unique<T>(std::forward<Args>(args)...));
  internal::PageHold hold;
  YONDER_TRY(placed, internal::allocate(sizeof(Control), true, hold));
  std::construct_at(reinterpret_cast<Control*>(placed.bytes), std::move(object));
  return shared_ptr<T>(placed.word.bits);
}

template <typename T, typename... Args>
shared_ptr<T> make_shared(Args&&... args) {
  Result<shared_ptr<T>> made = try_make_shared<T>(std::forward<Args>(args)...);
  if (!made) internal::lost(made.error());
  return std::move(*made);
}

}  // namespace yonder::heap
