#pragma once
// Key: the bytes a client names an item by, with their hash.
//
// The hash is XXH3-64 with seed 0 and is part of the format: its top bits choose the
// partition, so every server of a cluster and every client that asked for the map
// must compute the same. Its low bits choose the bucket inside the partition, which
// keeps the two choices independent.
//
//   63        57 56                        16 15           0
//   +-----------+----------------------------+--------------+
//   | partition |  bucket (as many as needed, from bit 16)  |  tag: told apart without reading keys
//   +-----------+----------------------------+--------------+
//
// Concurrency and lifetime: a value; the bytes are borrowed.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace yonder::cache {

// memcached's limit; a key has at least one byte.
inline constexpr std::size_t kMaxKeyBytes = 250;

std::uint64_t hash_of(std::string_view key);

struct Key {
  explicit Key(std::string_view key_bytes) : bytes(key_bytes), hash(hash_of(key_bytes)) {}

  std::uint16_t tag() const { return static_cast<std::uint16_t>(hash); }
  std::uint64_t bucket_bits() const { return hash >> 16; }

  std::string_view bytes;
  std::uint64_t hash;
};

// Which of `partitions` (a power of two) a hash belongs to.
constexpr std::size_t partition_of(std::uint64_t hash, std::size_t partitions) {
  return partitions == 1 ? 0 : static_cast<std::size_t>(hash >> (64 - __builtin_ctzll(partitions)));
}

}  // namespace yonder::cache
