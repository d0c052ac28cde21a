#pragma once
// The small memory of a NIC: a set-associative cache of table entries.
//
// Only tags: the model asks whether an entry would have been on the NIC. Least
// recently used within a set of eight ways; a multiplicative hash spreads tags
// over the sets, so that strided tags do not meet in one set.
//
// Concurrency: one thread.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace yonder::fabric::sim {

class MetadataCache {
 public:
  // `entries` is rounded up to 8 × a power of two.
  explicit MetadataCache(std::uint32_t entries)
      : set_mask_(std::bit_ceil((entries + kWays - 1) / kWays) - 1), ways_((set_mask_ + 1) * kWays) {}

  // True if `tag` was there; it is afterwards. Tags are not 0.
  bool touch(std::uint64_t tag) {
    const std::uint64_t hash = tag * 0x9e3779b97f4a7c15;
    Way* const set = &ways_[((hash >> 40) & set_mask_) * kWays];
    if (set[0].tag == tag) return count(true);
    // Ways are kept in order of use: finding moves to the front.
    std::uint32_t way = 1;
    while (way < kWays && set[way].tag != tag) ++way;
    const bool hit = way < kWays;
    std::move_backward(set, set + std::min(way, kWays - 1), set + std::min(way, kWays - 1) + 1);
    set[0].tag = tag;
    return count(hit);
  }

  // Forgets everything: the NIC was reset.
  void clear() { std::ranges::fill(ways_, Way{}); }

  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  static constexpr std::uint32_t kWays = 8;
  struct Way {
    std::uint64_t tag = 0;
  };

  bool count(bool hit) {
    ++(hit ? hits_ : misses_);
    return hit;
  }

  std::uint64_t set_mask_;
  std::vector<Way> ways_;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace yonder::fabric::sim
