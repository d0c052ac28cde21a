#pragma once
// Copies out of and into memory that others change at the same time.
//
// A region's owner, its local users and other peers may write while we copy:
// that is what one-sided access means (guarantee E5), and it is a data race as
// far as the C++ memory model goes. All such accesses of the provider are in
// these two functions. They move every aligned 8-byte word of the *shared* side
// with one load or store, so that no word is ever torn, and are hidden from
// ThreadSanitizer, which would report the very thing they are for.
//
// Why not let the kernel copy (sendmsg from, recv into the region): it cuts
// where TCP segments end, in the middle of words (65,483 bytes on loopback), so
// E5 would not hold; and a reply half sent would still refer to the region's
// memory when it is revoked. A copy through the stream's buffer, which stays in
// the L2 cache, costs about 6 % of the time of a loopback transfer (64 KiB pieces
// of 512 MiB, sent from a copy and from where they lie, 15 alternating rounds).
//
// Concurrency: any thread, any concurrent access to the shared side.

#include <cstddef>
#include <cstdint>

namespace yonder::fabric::tcp {

#define YONDER_RACY __attribute__((no_sanitize("thread")))

namespace racy {
// Words of the private side may lie anywhere; may_alias because the bytes were
// written as whatever the user made them.
struct __attribute__((packed, may_alias)) LooseWord {
  std::uint64_t value;
};
using SharedWord = std::uint64_t __attribute__((may_alias));

YONDER_RACY inline std::size_t bytes_to_alignment(const std::byte* p, std::size_t count) {
  const std::size_t head = (8 - reinterpret_cast<std::uintptr_t>(p) % 8) % 8;
  return head < count ? head : count;
}
}  // namespace racy

// `volatile` keeps the compiler from merging or splitting accesses of the shared
// side; it orders nothing, which E5 does not ask for.
YONDER_RACY inline void copy_from_shared(std::byte* to, const std::byte* shared, std::size_t count) {
  const auto* from = static_cast<const volatile std::byte*>(shared);
  std::size_t at = 0;
  for (const std::size_t head = racy::bytes_to_alignment(shared, count); at < head; ++at) to[at] = from[at];
#pragma GCC unroll 8
  for (; at + 8 <= count; at += 8) {
    reinterpret_cast<racy::LooseWord*>(to + at)->value =
        *reinterpret_cast<const volatile racy::SharedWord*>(from + at);
  }
  for (; at < count; ++at) to[at] = from[at];
}

YONDER_RACY inline void copy_to_shared(std::byte* shared, const std::byte* from, std::size_t count) {
  auto* to = static_cast<volatile std::byte*>(shared);
  std::size_t at = 0;
  for (const std::size_t head = racy::bytes_to_alignment(shared, count); at < head; ++at) to[at] = from[at];
#pragma GCC unroll 8
  for (; at + 8 <= count; at += 8) {
    *reinterpret_cast<volatile racy::SharedWord*>(to + at) =
        reinterpret_cast<const racy::LooseWord*>(from + at)->value;
  }
  for (; at < count; ++at) to[at] = from[at];
}

#undef YONDER_RACY

// Of `count` bytes bound for `shared`, with more to follow: how many to copy now
// so that no aligned word is written in two steps. 0 if they end inside the word
// they began in.
constexpr std::size_t whole_words(std::uintptr_t shared, std::size_t count) {
  const std::uintptr_t end = (shared + count) & ~std::uintptr_t{7};
  return end > shared ? end - shared : 0;
}

// The atomics of kCpu regions; sequentially consistent. Requires alignment.
inline std::uint64_t shared_fetch_add(std::byte* word, std::uint64_t add) {
  return __atomic_fetch_add(reinterpret_cast<racy::SharedWord*>(word), add, __ATOMIC_SEQ_CST);
}
inline std::uint64_t shared_compare_swap(std::byte* word, std::uint64_t compare, std::uint64_t swap) {
  std::uint64_t old = compare;
  __atomic_compare_exchange_n(reinterpret_cast<racy::SharedWord*>(word), &old, swap, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return old;
}

}  // namespace yonder::fabric::tcp
