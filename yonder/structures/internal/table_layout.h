#pragma once
// How a hash table lies in memory (hash_table.h).
//
//   byte 0     magic, shape
//   byte 64    space: the first byte nobody has reserved (fetch-and-add)
//   byte 128   current: the array of buckets
//   byte 192   next: the array it is being split into, or 0
//   byte 256   count: entries, about
//   byte 320   splits: buckets whose splitting somebody has begun
//   byte 384   free: the stack of space that was given back (table_magazine.h)
//   byte 4096  space: arrays of bucket words, and images
//
// An array word:   63     48 47                                 0
//                 | log2 n  | offset / 64                        |
//
// A bucket word:   63     62            42 41    36 35           0
//                 | moved | tag            | class | offset / 64  |
//
// The tag counts how often the place at `offset` was written to, and stands in the image as
// well: so a word and the image it means know each other. 0 is a bucket that never had an entry. `moved`: its
// entries are in the next array. `class` tells how many bytes the image takes, so that one read brings it.
//
// Concurrency and lifetime: values.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace yonder::structures::internal {

inline constexpr std::uint64_t kTableMaking = 0x676E696B616D4854ULL;  // "THmaking"
inline constexpr std::uint64_t kTableReady = 0x31303265646E6F59ULL;   // "Yonde201"
inline constexpr std::uint64_t kSpaceUnit = 64;

struct TableShape {
  std::uint64_t bytes = 0;      // of the whole region
  std::uint64_t hash_seed = 0;  // so that nobody can choose keys that collide
  std::uint32_t check = 0;
  std::uint32_t zero = 0;

  static constexpr std::uint64_t kMagicOffset = 0;
  static constexpr std::uint64_t kOffset = 8;
  static constexpr std::uint64_t kSpaceOffset = 64;
  static constexpr std::uint64_t kCurrentOffset = 128;
  static constexpr std::uint64_t kNextOffset = 192;
  static constexpr std::uint64_t kCountOffset = 256;
  static constexpr std::uint64_t kSplitsOffset = 320;
  static constexpr std::uint64_t kFreeOffset = 384;
  static constexpr std::uint64_t kFrontBytes = 448;  // All of the above.
  static constexpr std::uint64_t kSpaceBegin = 4096;

  constexpr std::uint32_t expected_check() const {
    return static_cast<std::uint32_t>((bytes * 0x9E3779B97F4A7C15ULL ^ hash_seed * 0xC2B2AE3D27D4EB4FULL) >>
                                      32);
  }
};
static_assert(sizeof(TableShape) == 24);

struct ArrayWord {
  std::uint32_t log2 = 0;
  std::uint64_t offset = 0;  // 0: there is none.

  constexpr std::uint64_t word() const { return std::uint64_t{log2} << 48 | offset / kSpaceUnit; }
  static constexpr ArrayWord of(std::uint64_t word) {
    return {.log2 = static_cast<std::uint32_t>(word >> 48),
            .offset = (word & ((std::uint64_t{1} << 48) - 1)) * kSpaceUnit};
  }
  constexpr std::uint64_t buckets() const { return std::uint64_t{1} << log2; }
  constexpr std::uint64_t bytes() const { return buckets() * 8; }
  constexpr std::uint64_t bucket_of(std::uint64_t hash) const { return hash & (buckets() - 1); }
  constexpr std::uint64_t word_offset(std::uint64_t bucket) const { return offset + 8 * bucket; }
  friend constexpr bool operator==(const ArrayWord&, const ArrayWord&) = default;
};

// Image sizes: every 64 bytes to 1 KiB, then four steps per doubling, to 64 KiB.
inline constexpr std::size_t kImageClasses = 40;
constexpr std::array<std::uint32_t, kImageClasses> make_image_bytes() {
  std::array<std::uint32_t, kImageClasses> out{};
  for (std::uint32_t i = 0; i < 16; ++i) out[i] = 64 * (i + 1);
  for (std::uint32_t i = 16; i < kImageClasses; ++i) {
    const std::uint32_t doubling = (i - 16) / 4;
    out[i] = (1024u << doubling) + (256u << doubling) * ((i - 16) % 4 + 1);
  }
  return out;
}
inline constexpr std::array<std::uint32_t, kImageClasses> kImageBytes = make_image_bytes();
inline constexpr std::uint32_t kMaxImageBytes = kImageBytes.back();
static_assert(kMaxImageBytes == 64 * 1024);

// The smallest class that holds `bytes`; requires bytes ≤ kMaxImageBytes.
constexpr std::uint32_t image_class(std::uint32_t bytes) {
  std::uint32_t out = 0;
  while (kImageBytes[out] < bytes) ++out;
  return out;
}

struct BucketWord {
  static constexpr std::uint32_t kTags = std::uint32_t{1} << 21;

  bool moved = false;
  std::uint32_t tag = 0;  // below kTags
  std::uint32_t image_class = 0;
  std::uint64_t offset = 0;

  constexpr std::uint64_t word() const {
    return std::uint64_t{moved} << 63 | std::uint64_t{tag} << 42 | std::uint64_t{image_class} << 36 |
           offset / kSpaceUnit;
  }
  static constexpr BucketWord of(std::uint64_t word) {
    return {.moved = (word >> 63) != 0,
            .tag = static_cast<std::uint32_t>(word >> 42 & (kTags - 1)),
            .image_class = static_cast<std::uint32_t>(word >> 36 & 63),
            .offset = (word & ((std::uint64_t{1} << 36) - 1)) * kSpaceUnit};
  }
  // What a peer may have written: an image that could be.
  constexpr bool makes_sense(std::uint64_t region_bytes) const {
    return image_class < kImageClasses && offset >= TableShape::kSpaceBegin &&
           offset + kImageBytes[image_class] <= region_bytes;
  }
  friend constexpr bool operator==(const BucketWord&, const BucketWord&) = default;
};
static_assert(BucketWord::of(BucketWord{true, 77, 39, 64 * 12345}.word()) ==
              BucketWord{true, 77, 39, 64 * 12345});

}  // namespace yonder::structures::internal
