#pragma once
// far::array: kSize items in far memory, all there from the beginning (T{}).
//
//   far::array<double, 1'000'000> grid;
//   grid.set(7, 0.5);
//   double total = 0;
//   grid.for_each([&](double x) { total += x; });
//
// A far::vector (vector.h) whose length does not change: the same costs, guards and walks.
//
// Concurrency: const calls, and write() of different items, by many threads.
// Lifetime: the heap outlives it. Empty once it was moved from: it may then only be assigned to
// or destroyed.

#include <cstddef>
#include <utility>

#include "yonder/heap/vector.h"

namespace yonder::heap {

template <typename T, std::size_t kSize, std::size_t kChunkBytes = kPageBytes>
class array {
 public:
  using value_type = T;

  // kOutOfMemory, or an error of the node: HeapOptions::on_lost decides; or see try_create().
  array() : items_(kSize) {}
  static Result<array> try_create() {
    array made{NoItems{}};
    YONDER_TRY_VOID(made.items_.try_resize(kSize));
    return made;
  }

  static constexpr std::size_t size() { return kSize; }

  // One item. Requires index < kSize (checked).
  ReadGuard<T> read(std::size_t index) const { return items_.read(index); }
  WriteGuard<T> write(std::size_t index) { return items_.write(index); }
  T get(std::size_t index) const { return items_.get(index); }
  void set(std::size_t index, T value) { items_.set(index, std::move(value)); }
  void prefetch(std::size_t index) const { items_.prefetch(index); }

  // All items, or parts of them: span.h.
  span<const T, kChunkBytes> all() const { return items_.all(); }
  span<T, kChunkBytes> all() { return items_.all(); }
  auto chunks(Scan scan = Scan::kKeep) const { return items_.chunks(scan); }
  auto chunks(Scan scan = Scan::kKeep) { return items_.chunks(scan); }
  template <typename F>
  void for_each(F&& f, Scan scan = Scan::kKeep) const {
    items_.for_each(std::forward<F>(f), scan);
  }
  template <typename F>
  void for_each(F&& f, Scan scan = Scan::kKeep) {
    items_.for_each(std::forward<F>(f), scan);
  }

 private:
  struct NoItems {};
  explicit array(NoItems) {}

  vector<T, kChunkBytes> items_;
};

template <typename T, std::size_t kSize, std::size_t kChunkBytes>
struct is_relocatable<array<T, kSize, kChunkBytes>> : std::true_type {};

}  // namespace yonder::heap
