#pragma once
// Random numbers that a seed repeats: xoshiro256**, seeded through splitmix64.
//
// For workloads, simulation, jitter and tests: whoever knows a few outputs can
// compute the rest, so keys come from secure_random.h instead. Chosen over the
// generators of <random> because it is 32 bytes instead of 2.5 KB, a nanosecond
// a draw, and gives the same numbers with every standard library (which the
// distributions of <random> do not).
//
//   Prng prng(seed);
//   std::uint64_t slot = prng.below(slots);
//
// Concurrency: one thread at a time per object; give each thread its split().

#include <bit>
#include <cstdint>
#include <limits>

#include "yonder/base/check.h"

namespace yonder {

// splitmix64: one step of a 64-bit counter hashed to 64 bits. Also good by itself
// to turn any number into an unrelated one.
constexpr std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Prng {
 public:
  using result_type = std::uint64_t;  // The names of UniformRandomBitGenerator.

  // Any seed is good: four splitmix64 outputs are never all zero, the one state
  // xoshiro cannot leave.
  constexpr explicit Prng(std::uint64_t seed) {
    for (std::uint64_t& word : state_) word = splitmix64(seed);
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  // The next 64 random bits.
  constexpr result_type operator()() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, n), without bias. Requires n > 0.
  //
  // Lemire's method: the high half of a 64x64-bit product is the answer, the low
  // half says whether this draw belongs to the few that would favour some
  // answers. Those are drawn again, with probability below n / 2^64; the division
  // that finds their exact number runs only if the low half is below n.
  constexpr std::uint64_t below(std::uint64_t n) {
    YONDER_DCHECK(n > 0, "nothing to choose from");
    Wide product = Wide{(*this)()} * n;
    if (static_cast<std::uint64_t>(product) < n) [[unlikely]] {
      const std::uint64_t surplus = (0 - n) % n;  // 2^64 mod n.
      while (static_cast<std::uint64_t>(product) < surplus) product = Wide{(*this)()} * n;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // Uniform in [low, high], both included. Requires low <= high.
  constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    YONDER_DCHECK(low <= high, "an empty range");
    const std::uint64_t span = high - low + 1;
    return span == 0 ? (*this)() : low + below(span);  // 0: the whole of 64 bits.
  }

  // Uniform in [0, 1): a multiple of 2^-53, as many as a double can tell apart.
  constexpr double uniform_double() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  // True with probability p.
  constexpr bool chance(double p) { return uniform_double() < p; }

  // Skips 2^128 draws.
  constexpr void jump() {
    constexpr std::uint64_t kJump[] = {0x180ec6d33cfd0aba, 0xd5a61266f0c9392c, 0xa9582618e03fc9aa,
                                       0x39abdc4529b1661c};
    std::uint64_t jumped[4] = {};
    for (const std::uint64_t word : kJump) {
      for (int bit = 0; bit < 64; ++bit) {
        if (((word >> bit) & 1) != 0) {
          for (int i = 0; i < 4; ++i) jumped[i] ^= state_[i];
        }
        (*this)();
      }
    }
    for (int i = 0; i < 4; ++i) state_[i] = jumped[i];
  }

  // A generator for another thread or component. It continues from here while
  // this one jumps, so the two share no draw for the first 2^128.
  constexpr Prng split() {
    Prng other = *this;
    jump();
    return other;
  }

  friend constexpr bool operator==(const Prng&, const Prng&) = default;

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t state_[4];
};

}  // namespace yonder
