#pragma once
// What the clients of a key-value cache ask for: which key, and how large values are.
//
// The sizes and the skew are those of Meta's "kvcache_reg" (CacheLib's cachebench): half of the
// values are below 160 bytes, the hottest key gets 6.6 % of the requests, the hottest hundredth
// of the keys 72 %: a Zipfian with theta 0.99. What is hot changes: every `kRequestsPerNewKey`
// requests a key that nobody asked for becomes the hottest, and all others cool by a rank.
//
// Concurrency: one thread per object. Lifetime: values.

#include <cstdint>

#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"

namespace yonder::bench::heap {

// Bytes of a value, between 64 and 3,840: an item lies in one page.
std::uint32_t cache_value_bytes(Prng& random);

// A bijection of [0, items): neighbours come apart, so that what is hot together does not lie
// together because of its number.
class Scatter {
 public:
  explicit Scatter(std::uint64_t items);
  std::uint64_t operator()(std::uint64_t number) const { return (number * factor_ + 1) % items_; }

 private:
  std::uint64_t items_;
  std::uint64_t factor_;
};

// Keys of a skewed cache whose hot keys change.
class ChurningKeys {
 public:
  static constexpr std::uint64_t kRequestsPerNewKey = 50;
  static constexpr double kTheta = 0.99;

  explicit ChurningKeys(std::uint64_t keys)
      : keys_(keys), ranks_({.items = keys, .theta = kTheta}), scatter_(keys) {}
  std::uint64_t next(Prng& random) {
    const std::uint64_t newest = requests_++ / kRequestsPerNewKey;
    return scatter_((newest + keys_ - ranks_.next(random)) % keys_);
  }

 private:
  std::uint64_t keys_;
  std::uint64_t requests_ = 0;
  Zipfian ranks_;
  Scatter scatter_;
};

// Every key alike.
class UniformKeys {
 public:
  explicit UniformKeys(std::uint64_t keys) : keys_(keys) {}
  std::uint64_t next(Prng& random) { return random.below(keys_); }

 private:
  std::uint64_t keys_;
};

}  // namespace yonder::bench::heap
