#pragma once
// Allocator: std containers whose every byte lies in a segment.
//
//   segment::unordered_map<std::uint64_t, segment::vector<segment::string>> map{Allocator<int>(heap)};
//   map[7].emplace_back("hello");         // node, vector and text all in the segment
//
// The allocator is a pointer to the segment's Heap, which is at the same address wherever
// the segment is: a container needs no change to move. It is handed down to elements that
// take an allocator themselves (std::scoped_allocator_adaptor).
//
// Throws std::bad_alloc when the segment is full, as containers demand. A container that
// is copied or assigned to keeps its own allocator, so nothing of one segment ever ends up
// in another.
//
// Concurrency: as Heap: one thread at a time per segment. Lifetime: the segment's.

#include <cstddef>
#include <functional>
#include <map>
#include <new>
#include <scoped_allocator>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yonder/segment/heap.h"

namespace yonder::segment {

template <typename T>
class Allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::false_type;
  using propagate_on_container_swap = std::false_type;
  using is_always_equal = std::false_type;

  explicit Allocator(Heap& heap) : heap_(&heap) {}
  template <typename U>
  Allocator(const Allocator<U>& other) : heap_(&other.heap()) {}  // NOLINT: containers convert.

  T* allocate(std::size_t count) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, sizeof(T), &bytes)) throw std::bad_array_new_length();
    void* memory = heap_->try_allocate(bytes, alignof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { heap_->deallocate(memory); }

  Heap& heap() const { return *heap_; }

  template <typename U>
  friend bool operator==(const Allocator& a, const Allocator<U>& b) {
    return &a.heap() == &b.heap();
  }

 private:
  Heap* heap_;
};

template <typename T>
using ScopedAllocator = std::scoped_allocator_adaptor<Allocator<T>>;

using string = std::basic_string<char, std::char_traits<char>, Allocator<char>>;
template <typename T>
using vector = std::vector<T, ScopedAllocator<T>>;
template <typename Key, typename Value, typename Compare = std::less<Key>>
using map = std::map<Key, Value, Compare, ScopedAllocator<std::pair<const Key, Value>>>;
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Equal = std::equal_to<Key>>
using unordered_map =
    std::unordered_map<Key, Value, Hash, Equal, ScopedAllocator<std::pair<const Key, Value>>>;

}  // namespace yonder::segment

// Equal texts hash alike, whatever allocates them.
template <>
struct std::hash<yonder::segment::string> {
  std::size_t operator()(const yonder::segment::string& text) const {
    return std::hash<std::string_view>{}(text);
  }
};
