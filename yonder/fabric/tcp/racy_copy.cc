#include "yonder/fabric/tcp/internal/racy_copy.h"

#include <algorithm>

#define YONDER_RACY __attribute__((no_sanitize("thread"), noinline))

namespace yonder::fabric::tcp {
namespace {

// Words of the private side may lie anywhere; may_alias because the bytes were
// written as whatever the user made them.
struct __attribute__((packed, may_alias)) LooseWord {
  std::uint64_t value;
};
using SharedWord = std::uint64_t __attribute__((may_alias));

std::size_t bytes_to_alignment(const std::byte* p, std::size_t count) {
  return std::min(count, (8 - reinterpret_cast<std::uintptr_t>(p) % 8) % 8);
}

}  // namespace

// `volatile` keeps the compiler from merging or splitting accesses of the shared
// side; it orders nothing, which E5 does not ask for.
YONDER_RACY void copy_from_shared(std::byte* to, const std::byte* shared, std::size_t count) {
  const auto* from = static_cast<const volatile std::byte*>(shared);
  std::size_t at = 0;
  for (const std::size_t head = bytes_to_alignment(shared, count); at < head; ++at) to[at] = from[at];
  for (; at + 8 <= count; at += 8) {
    reinterpret_cast<LooseWord*>(to + at)->value = *reinterpret_cast<const volatile SharedWord*>(from + at);
  }
  for (; at < count; ++at) to[at] = from[at];
}

YONDER_RACY void copy_to_shared(std::byte* shared, const std::byte* from, std::size_t count) {
  auto* to = static_cast<volatile std::byte*>(shared);
  std::size_t at = 0;
  for (const std::size_t head = bytes_to_alignment(shared, count); at < head; ++at) to[at] = from[at];
  for (; at + 8 <= count; at += 8) {
    *reinterpret_cast<volatile SharedWord*>(to + at) = reinterpret_cast<const LooseWord*>(from + at)->value;
  }
  for (; at < count; ++at) to[at] = from[at];
}

std::uint64_t shared_fetch_add(std::byte* word, std::uint64_t add) {
  return __atomic_fetch_add(reinterpret_cast<SharedWord*>(word), add, __ATOMIC_SEQ_CST);
}

std::uint64_t shared_compare_swap(std::byte* word, std::uint64_t compare, std::uint64_t swap) {
  std::uint64_t old = compare;
  __atomic_compare_exchange_n(reinterpret_cast<SharedWord*>(word), &old, swap, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return old;
}

}  // namespace yonder::fabric::tcp
