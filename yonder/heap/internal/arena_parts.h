#pragma once
// The parts of a PagedArena: spans, the free objects of a class, a thread's share of them.
//
// Concurrency: a CentralClass by its lock, with the spans of its class; a ThreadCache by
// its thread. Lifetime: spans live from make to drop, caches as long as their threads.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/heap/internal/size_classes.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::heap::internal {

// A run of pages: cut into objects of one class, or one large object.
struct Span {
  static constexpr std::uint32_t kLarge = UINT32_MAX;

  std::size_t first = 0;  // Page.
  std::size_t pages = 0;
  std::uint32_t size_class = kLarge;
  std::uint32_t capacity = 0;  // Objects.
  std::uint32_t free = 0;      // Of these, free in `bits`; under the lock of its class.
  Span* previous = nullptr;    // In the list of its class.
  Span* next = nullptr;
  std::vector<std::uint64_t> bits;  // 1: free.

  // Requires that one is free.
  std::uint32_t take() {
    for (std::size_t word = 0;; ++word) {
      if (bits[word] == 0) continue;
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(bits[word]));
      bits[word] &= bits[word] - 1;
      --free;
      return static_cast<std::uint32_t>(word) * 64 + bit;
    }
  }
  // False: it was free already.
  bool give(std::uint32_t object) {
    std::uint64_t& word = bits[object / 64];
    const std::uint64_t bit = std::uint64_t{1} << (object % 64);
    if ((word & bit) != 0) return false;
    word |= bit;
    ++free;
    return true;
  }
};

// The spans of a class that have a free object, in a list.
struct CentralClass {
  sync::SpinLock lock;
  Span* head YONDER_GUARDED_BY(lock) = nullptr;
  // Of these, spans without any object in use: one is kept, so that a class at its
  // boundary does not drop and make a span with every object.
  std::uint32_t empty YONDER_GUARDED_BY(lock) = 0;

  void push(Span* span) YONDER_REQUIRES(lock) {
    span->previous = nullptr;
    span->next = head;
    if (head != nullptr) head->previous = span;
    head = span;
  }
  void remove(Span* span) YONDER_REQUIRES(lock) {
    (span->previous != nullptr ? span->previous->next : head) = span->next;
    if (span->next != nullptr) span->next->previous = span->previous;
  }
};

// How many free objects of a class a thread keeps: 32 KiB, from 4 to 64 of them.
constexpr std::size_t cache_capacity(std::size_t size_class) {
  return std::clamp<std::size_t>(kMaxSmallBytes / class_bytes(size_class), 4, 64);
}

constexpr auto kCacheOffsets = [] {
  std::array<std::size_t, kClasses + 1> offsets{};
  for (std::size_t i = 0; i < kClasses; ++i) offsets[i + 1] = offsets[i] + cache_capacity(i);
  return offsets;
}();

struct ThreadCache {
  std::uint64_t arena = 0;  // Whose objects these are.
  std::array<std::uint32_t, kClasses> counts{};
  std::array<void*, kCacheOffsets[kClasses]> objects;

  void push(std::size_t size_class, void* object) {
    objects[kCacheOffsets[size_class] + counts[size_class]++] = object;
  }
  void* pop(std::size_t size_class) { return objects[kCacheOffsets[size_class] + --counts[size_class]]; }
};

}  // namespace yonder::heap::internal
