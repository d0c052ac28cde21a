#pragma once
// far::stack: last in, first out, in far memory.
//
// A far::vector (vector.h) of which only the end is used: the chunk with the top stays local by
// itself, what is deep below leaves, and a chunk that is emptied is freed. Local memory: 8 bytes
// per chunk (4 KiB).
//
// Errors: try_push returns kOutOfMemory and those of the node, and the stack is as before; the
// others do what HeapOptions::on_lost says.
//
// Concurrency: one thread, or const calls by many.
// Lifetime: the heap outlives it. A guard on the top ends before the next push or pop.

#include <cstddef>
#include <utility>

#include "yonder/heap/vector.h"

namespace yonder::heap {

template <typename T>
class stack {
 public:
  using value_type = T;

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }

  void push(T value) { items_.push_back(std::move(value)); }
  Result<void> try_push(T value) { return items_.try_emplace_back(std::move(value)); }

  // The last one pushed. These require !empty() (checked).
  ReadGuard<T> read_top() const { return items_.read(items_.size() - 1); }
  WriteGuard<T> write_top() { return items_.write(items_.size() - 1); }
  T pop() {
    T top = std::move(*items_.write(items_.size() - 1));
    items_.pop_back();
    return top;
  }
  void clear() { items_.clear(); }

 private:
  vector<T> items_;
};

template <typename T>
struct is_relocatable<stack<T>> : std::true_type {};

}  // namespace yonder::heap
