#pragma once
// How a RegionKey of this provider hides what the NIC needs.
//
// The NIC checks an rkey (32 bits) and an address. We register regions so that
// their first byte has an address below one page (the offset of the memory in
// its page, because NICs translate whole pages); rkey and that offset are packed
// with random bits and then mixed by a fixed bijection of 64 bits:
//
//   bit  63       44 43             32 31        0
//       | random   | offset in page  | rkey      |   → mix → RegionKey::value
//
// Whoever flips a bit of a key thus asks for another rkey, which the NIC
// refuses; and all 64 bits of a key look random. The mixing is no secret: the
// protection is the NIC's check of the rkey.
//
// Concurrency: values.

#include <cstdint>

#include "yonder/fabric/types.h"

namespace yonder::fabric::verbs {

struct NicKey {
  std::uint32_t rkey = 0;
  std::uint32_t page_offset = 0;  // < 4096: the address of the region's first byte.
  std::uint32_t salt = 0;         // 20 random bits.
  friend constexpr bool operator==(const NicKey&, const NicKey&) = default;
};

namespace internal {

// Odd multipliers and their inverses modulo 2^64; each step below is invertible.
inline constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t inverse_of(std::uint64_t odd) {
  std::uint64_t inverse = odd;  // Correct to 3 bits; Newton doubles that each time.
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}
static_assert(kMultiplier * inverse_of(kMultiplier) == 1);

}  // namespace internal

constexpr RegionKey encode_key(const NicKey& key) {
  std::uint64_t x = std::uint64_t{key.salt} << 44 | std::uint64_t{key.page_offset} << 32 | key.rkey;
  for (int round = 0; round < 2; ++round) {
    x *= internal::kMultiplier;
    x ^= x >> 32;
  }
  return RegionKey{x};
}

constexpr NicKey decode_key(RegionKey key) {
  std::uint64_t x = key.value;
  for (int round = 0; round < 2; ++round) {
    x ^= x >> 32;  // Its own inverse: the shift is half the width.
    x *= internal::inverse_of(internal::kMultiplier);
  }
  return NicKey{.rkey = static_cast<std::uint32_t>(x),
                .page_offset = static_cast<std::uint32_t>(x >> 32) & 0xfff,
                .salt = static_cast<std::uint32_t>(x >> 44)};
}

}  // namespace yonder::fabric::verbs
