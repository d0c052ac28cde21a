#pragma once
// Item: one key with its value, as it lies in a partition's memory.
//
//   byte  0      4      8      12        16         20            24    32          33     34    36
//        +------+------+------+---------+----------+-------------+-----+-----------+------+-----+
//        | next | older| newer| expires | accessed | value bytes | cas | key bytes | bits | tag |
//        +------+------+------+---------+----------+-------------+-----+-----------+------+-----+
//     36 | client flags, 4 bytes, only if they are not 0 | key | value |
//
// 36 bytes beyond key and value. memcached needs 48 for its header, 8 for the CAS
// number, one after the key and two after the value: links of 32 bits instead of
// pointers make the difference, and they stay right when the memory moves.
//
// Concurrency: under the lock of the partition. Lifetime: memory of the partition's
// heap; a pointer to an Item is good until the next operation that may free it.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace yonder::cache {

// Seconds of the Unix era: the same on every server, so that an item may move. 0 as
// an expiry means never. 32 bits last until 2106.
using Seconds = std::uint32_t;

// A place in a partition's range, in units of 8 bytes from its start; 0 is nowhere.
using Ref = std::uint32_t;
inline constexpr std::size_t kRefUnit = 8;

enum ItemBits : std::uint8_t {
  kFetched = 1u << 0,    // Read at least once.
  kActive = 1u << 1,     // Read again since it came into its list: worth keeping.
  kStale = 1u << 2,      // Marked by md I, or stored with an old CAS number by ms I.
  kTokenSent = 1u << 3,  // Some client was told to recache it.
  kBinaryKey = 1u << 4,  // The key came as base64 and goes out as base64.
  kHasFlags = 1u << 5,   // The client flags are stored.
};

// The lists of the segmented LRU, in the two top bits of `bits`.
enum class Segment : std::uint8_t { kHot = 0, kWarm = 1, kCold = 2 };
inline constexpr std::size_t kSegments = 3;

// What memcached's reports number by slab class: items of all sizes share their memory here, and
// so make one class.
inline constexpr std::uint32_t kItemClass = 1;

// memcpy, of which an empty text without an address is no valid argument.
inline void copy_text(char* to, std::string_view from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

struct Item {
  Ref next;   // In the bucket.
  Ref older;  // In the segment: towards the tail…
  Ref newer;  // …and towards the head.
  Seconds expires;
  Seconds accessed;
  std::uint32_t value_bytes;
  std::uint64_t cas;
  std::uint8_t key_bytes;
  std::uint8_t bits;
  std::uint16_t tag;

  static constexpr std::size_t kHeaderBytes = 36;
  static constexpr int kSegmentShift = 6;

  bool has(std::uint8_t bit) const { return (bits & bit) != 0; }
  void set(std::uint8_t bit) { bits = static_cast<std::uint8_t>(bits | bit); }
  void clear(std::uint8_t bit) { bits = static_cast<std::uint8_t>(bits & ~bit); }
  Segment segment() const { return static_cast<Segment>(bits >> kSegmentShift); }
  void set_segment(Segment to) {
    bits = static_cast<std::uint8_t>((bits & 0x3f) | (static_cast<unsigned>(to) << kSegmentShift));
  }

  std::uint32_t flags() const {
    std::uint32_t value = 0;
    if (has(kHasFlags)) std::memcpy(&value, tail(), sizeof value);
    return value;
  }
  std::string_view key() const { return {key_data(), key_bytes}; }
  std::string_view value() const { return {key_data() + key_bytes, value_bytes}; }
  char* value_data() { return const_cast<char*>(key_data()) + key_bytes; }
  char* tail() { return reinterpret_cast<char*>(this) + kHeaderBytes; }

  std::size_t total_bytes() const { return total_bytes(key_bytes, flags(), value_bytes); }
  static constexpr std::size_t total_bytes(std::size_t key, std::uint32_t flags, std::size_t value) {
    return kHeaderBytes + (flags != 0 ? sizeof flags : 0) + key + value;
  }

 private:
  const char* tail() const { return reinterpret_cast<const char*>(this) + kHeaderBytes; }
  const char* key_data() const { return tail() + (has(kHasFlags) ? sizeof(std::uint32_t) : 0); }
};
static_assert(offsetof(Item, cas) == 24 && offsetof(Item, tag) == 34);

}  // namespace yonder::cache
