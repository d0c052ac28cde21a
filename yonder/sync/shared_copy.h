#pragma once
// Copies between private memory and memory that others change at the same time.
//
// One-sided access means that a reader copies bytes while their owner may be
// writing them; who copies finds out afterwards (a version, a checksum) whether
// the copy is worth anything. The language calls this a data race, and for two
// plain accesses it would be one; here the copies are kept out of the compiler's
// and of ThreadSanitizer's sight where that matters, so that the tool reports the
// races that are mistakes and not the one that is the design.
//
// Two kinds:
//   shared_copy   as fast as memcpy; promises nothing about which bytes of a
//                 concurrent change it sees
//   load_words,   an aligned 8-byte word of the shared side is never torn, whatever
//   store_words   the alignment and length of the rest
//
// and, for the words that several parties count with, atomics on memory that is
// not of an atomic type.
//
// Order: the copies are relaxed. Put a fence (acquire after a load, release
// before and after a store) between them and the word that validates them.
//
// Concurrency: any thread. Lifetime: nothing is kept. Ranges must not overlap.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define YONDER_SHARED_COPY_HIDDEN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define YONDER_SHARED_COPY_HIDDEN 1
#endif
#endif

namespace yonder::sync {

inline void shared_copy(void* to, const void* from, std::size_t bytes) {
#if defined(YONDER_SHARED_COPY_HIDDEN) && defined(__x86_64__)
  // A string instruction: the tool instruments C++ accesses, not this.
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

inline void shared_zero(void* to, std::size_t bytes) {
#if defined(YONDER_SHARED_COPY_HIDDEN) && defined(__x86_64__)
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory");
#else
  std::memset(to, 0, bytes);
#endif
}

namespace internal {

// A plain memcpy tears words: it covers odd lengths with two overlapping moves, and
// aligns its destination, so that its loads may straddle the words of the source.
// Both need an address or a length that is not a multiple of 8. When all are,
// every move that memcpy can choose (8, 16, 32, 64 bytes, `rep movsb` on the same
// alignment) starts and ends between words, and the hardware performs the part of a
// move that lies in one cache line as a whole or by words.
inline bool is_word_copy(const void* a, const void* b, std::size_t bytes) {
  return ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | bytes) & 7) == 0;
}

// Whole words: is_word_copy() holds. Little is copied here, because a call of
// memcpy costs as much as the copy.
inline void copy_whole_words(std::byte* to, const std::byte* from, std::size_t bytes) {
#if !defined(YONDER_SHARED_COPY_HIDDEN)
  if (bytes <= 128) [[likely]] {
    std::size_t at = 0;
    for (; at + 16 <= bytes; at += 16) std::memcpy(to + at, from + at, 16);
    if (at != bytes) std::memcpy(to + at, from + at, 8);
    return;
  }
#endif
  shared_copy(to, from, bytes);
}

template <bool kLoad>
void copy_by_words(std::byte* shared, std::byte* local, std::size_t bytes) {
  const auto move = [&](std::size_t count) {
    shared_copy(kLoad ? local : shared, kLoad ? shared : local, count);
    shared += count;
    local += count;
    bytes -= count;
  };
  while (bytes != 0 && reinterpret_cast<std::uintptr_t>(shared) % 8 != 0) move(1);
  while (bytes >= 8) {
    using Word = std::uint64_t __attribute__((may_alias));
    auto* word = reinterpret_cast<Word*>(shared);
    std::uint64_t value = 0;
    // Relaxed: only wholeness is wanted. A builtin, not std::atomic, because the
    // memory is the user's.
    if constexpr (kLoad) {
      value = __atomic_load_n(word, __ATOMIC_RELAXED);
      std::memcpy(local, &value, 8);
    } else {
      std::memcpy(&value, local, 8);
      __atomic_store_n(word, value, __ATOMIC_RELAXED);
    }
    shared += 8;
    local += 8;
    bytes -= 8;
  }
  while (bytes != 0) move(1);
}

}  // namespace internal

// From shared to private memory.
inline void load_words(std::byte* local, const std::byte* shared, std::size_t bytes) {
  if (internal::is_word_copy(local, shared, bytes)) [[likely]] {
    internal::copy_whole_words(local, shared, bytes);
  } else {
    internal::copy_by_words<true>(const_cast<std::byte*>(shared), local, bytes);
  }
}

// From private to shared memory.
inline void store_words(std::byte* shared, const std::byte* local, std::size_t bytes) {
  if (internal::is_word_copy(local, shared, bytes)) [[likely]] {
    internal::copy_whole_words(shared, local, bytes);
  } else {
    internal::copy_by_words<false>(shared, const_cast<std::byte*>(local), bytes);
  }
}

// Atomics on a word of shared memory, which must be aligned. Builtins, not
// std::atomic, because the memory is the user's; seq_cst is what a locked
// instruction is anyway. Both return what was there before.
inline std::uint64_t shared_fetch_add(std::byte* word, std::uint64_t add) {
  using Word = std::uint64_t __attribute__((may_alias));
  return __atomic_fetch_add(reinterpret_cast<Word*>(word), add, __ATOMIC_SEQ_CST);
}
inline std::uint64_t shared_compare_swap(std::byte* word, std::uint64_t compare, std::uint64_t swap) {
  using Word = std::uint64_t __attribute__((may_alias));
  std::uint64_t old = compare;
  __atomic_compare_exchange_n(reinterpret_cast<Word*>(word), &old, swap, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return old;
}

}  // namespace yonder::sync
