#pragma once
// checksum: 32 bits that tell a whole payload from a torn one.
//
// A one-sided reader of an object computes it over every byte that it fetched, one
// read at a time, so it must cost next to nothing wherever it runs: on the client's
// processor beside a NIC, and in an emulator. Folded multiplication does: 16 bytes are
// one 64 × 64 → 128-bit product whose halves are combined, in three independent lanes
// of 16 bytes, with ordinary integer instructions alone. ADR 24 has the measurements.
//
//   lane  ← fold((word ⊕ key) × (next word ⊕ lane))     for every 16 bytes
//   sum   ← fold(lanes, length), then fold(sum ⊕ seed), cut to 32 bits
//
// What it is for: parts of two versions of an object put together, in pieces of any
// size, fit by a chance of 2^-32. What it is not for: an adversary. Whoever may write an
// object can find contents whose torn copies are not noticed (a word that equals a
// lane's key multiplies what came before it in its lane by 0), to nobody's harm but that
// of the object's own readers. The seed is mixed in last, so that the identity of an
// object counts whatever its bytes are.
//
// The result depends on the byte order of the machine; Yonder runs on little-endian
// ones.
//
// Concurrency: any thread; the bytes must not change meanwhile. Lifetime: keeps nothing.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace yonder::node {

static_assert(std::endian::native == std::endian::little, "checksums travel between machines");

namespace internal {

// Bits without pattern: fractional parts of the square roots of the first primes.
inline constexpr std::uint64_t kLaneKeys[] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b};
inline constexpr std::uint64_t kLaneStarts[] = {0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f};
inline constexpr std::uint64_t kLengthKey = 0x1f83d9abfb41bd6b;
inline constexpr std::uint64_t kSeedKey = 0x5be0cd19137e2179;

inline std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The product's halves, combined: every bit of it counts.
inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t absorb(std::uint64_t lane, std::uint64_t key, const std::byte* at) {
  return fold(word_at(at) ^ key, word_at(at + 8) ^ lane);
}

inline std::uint64_t absorb_and_copy(std::uint64_t lane, std::uint64_t key, const std::byte* at,
                                     std::byte* to) {
  const std::uint64_t first = word_at(at);
  const std::uint64_t second = word_at(at + 8);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + 8, &second, sizeof second);
  return fold(first ^ key, second ^ lane);
}

// The last 16 bytes of a payload that is not a multiple of them: some count twice, which
// is as good. A payload with fewer is filled up with zeros; its length tells.
inline std::uint64_t absorb_last(std::uint64_t lane, std::span<const std::byte> bytes) {
  if (bytes.size() >= 16) return absorb(lane, kLaneKeys[1], bytes.data() + bytes.size() - 16);
  std::byte filled[16] = {};
  std::memcpy(filled, bytes.data(), bytes.size());
  return absorb(lane, kLaneKeys[1], filled);
}

}  // namespace internal

// The same, and copies the first bytes to `out` on the way: what has been loaded need not be
// loaded again, which is a third of the work of both in an emulator. Requires
// out.size() ≤ bytes.size(). Where the sum does not fit, `out` has what was torn.
inline std::uint32_t checksum_and_copy(std::span<const std::byte> bytes, std::uint64_t seed,
                                       std::span<std::byte> out) {
  using namespace internal;
  constexpr std::size_t kStep = 16;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t a = kLaneStarts[0];
  std::uint64_t b = kLaneStarts[1];
  std::uint64_t c = kLaneStarts[2];
  std::byte* to = out.data();
  std::size_t to_copy = out.size();
  for (; to_copy >= 3 * kStep; to_copy -= 3 * kStep, to += 3 * kStep) {
    a = absorb_and_copy(a, kLaneKeys[0], at, to);
    b = absorb_and_copy(b, kLaneKeys[1], at + kStep, to + kStep);
    c = absorb_and_copy(c, kLaneKeys[2], at + 2 * kStep, to + 2 * kStep);
    left -= 3 * kStep;
    at += 3 * kStep;
  }
  if (to_copy != 0) std::memcpy(to, at, to_copy);
  for (; left >= 3 * kStep; left -= 3 * kStep, at += 3 * kStep) {
    a = absorb(a, kLaneKeys[0], at);
    b = absorb(b, kLaneKeys[1], at + kStep);
    c = absorb(c, kLaneKeys[2], at + 2 * kStep);
  }
  for (; left >= kStep; left -= kStep, at += kStep) a = absorb(a, kLaneKeys[0], at);
  if (left != 0) b = absorb_last(b, bytes);
  const std::uint64_t lanes = a ^ std::rotl(b, 21) ^ std::rotl(c, 42);
  const std::uint64_t content = fold(lanes, std::uint64_t{bytes.size()} ^ kLengthKey);
  const std::uint64_t sum = fold(content ^ seed, kSeedKey);
  return static_cast<std::uint32_t>(sum ^ (sum >> 32));
}

inline std::uint32_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  return checksum_and_copy(bytes, seed, {});
}

}  // namespace yonder::node
