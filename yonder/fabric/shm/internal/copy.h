#pragma once
// Copies between our memory and memory that others change at the same time.
//
// Guarantee E5 of endpoint.h: an aligned 8-byte word of the remote side is never
// torn. A plain memcpy does not promise that: it covers odd lengths with two
// overlapping moves, and aligns its destination, so that its loads may straddle
// the words of the source. Both need an address or a length that is not a
// multiple of 8. When both addresses and the length are multiples of 8, every
// move memcpy can choose (8, 16, 32, 64 bytes, `rep movsb` on the same
// alignment) starts and ends between words, and the hardware performs the part
// of a move that lies in one cache line as a whole or by words; so that case, the
// common one, is memcpy. All others go word by word.
//
// In ThreadSanitizer builds the copies are invisible to it (string instruction,
// not instrumented): two parties racing on the bytes of a region is what
// one-sided access is, and not a defect to be reported.
//
// Concurrency: any thread; see above. Lifetime: nothing is kept.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define YONDER_SHM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define YONDER_SHM_TSAN 1
#endif
#endif

namespace yonder::fabric::shm {

// Plain bytes, no word guarantee: ring payloads, which one side at a time uses.
inline void copy_plain(void* to, const void* from, std::size_t bytes) {
#ifdef YONDER_SHM_TSAN
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

namespace internal {

// `remote` is the side whose words must stay whole; the other side may have any
// alignment. kLoad: from remote to local.
template <bool kLoad>
void copy_by_words(std::byte* remote, std::byte* local, std::size_t bytes) {
  const auto move = [&](std::size_t count) {
    copy_plain(kLoad ? local : remote, kLoad ? remote : local, count);
    remote += count;
    local += count;
    bytes -= count;
  };
  while (bytes != 0 && reinterpret_cast<std::uintptr_t>(remote) % 8 != 0) move(1);
  while (bytes >= 8) {
    auto* word = reinterpret_cast<std::uint64_t*>(remote);
    std::uint64_t value;
    // Relaxed: only wholeness is wanted. A builtin, not std::atomic, because the
    // memory is the user's.
    if constexpr (kLoad) {
      value = __atomic_load_n(word, __ATOMIC_RELAXED);
      copy_plain(local, &value, 8);
    } else {
      copy_plain(&value, local, 8);
      __atomic_store_n(word, value, __ATOMIC_RELAXED);
    }
    remote += 8;
    local += 8;
    bytes -= 8;
  }
  while (bytes != 0) move(1);
}

inline bool is_word_copy(const void* a, const void* b, std::size_t bytes) {
  return ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | bytes) & 7) == 0;
}

}  // namespace internal

// Reads `bytes` of a region into local memory. The ranges must not overlap.
inline void copy_from_region(std::byte* local, const std::byte* remote, std::size_t bytes) {
  if (internal::is_word_copy(local, remote, bytes)) [[likely]] {
    copy_plain(local, remote, bytes);
  } else {
    internal::copy_by_words<true>(const_cast<std::byte*>(remote), local, bytes);
  }
}

// Writes local memory into a region. The ranges must not overlap.
inline void copy_to_region(std::byte* remote, const std::byte* local, std::size_t bytes) {
  if (internal::is_word_copy(local, remote, bytes)) [[likely]] {
    copy_plain(remote, local, bytes);
  } else {
    internal::copy_by_words<false>(remote, const_cast<std::byte*>(local), bytes);
  }
}

}  // namespace yonder::fabric::shm
