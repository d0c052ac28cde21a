#pragma once
// A small, fast compressor for the web service's replies: greedy matches of at least four bytes,
// found through one hash table, as LZ4 and Snappy do. It stands in for Snappy, which is not among
// the libraries we depend on.
//
//   token = literals << 4 | (match length - 4); 15 in either half: more follows, in bytes of up to
//   255; then the literals; then two bytes of distance. The last token has no match.
//
// Concurrency: one thread per Compressor. Lifetime: a value.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace yonder::bench::heap {

class Compressor {
 public:
  // At most 64 KiB at a time (checked).
  std::span<const std::byte> compress(std::span<const std::byte> in);

 private:
  static constexpr unsigned kTableBits = 12;
  void put_length(std::size_t length);
  void put(std::span<const std::byte> literals, std::size_t match, std::size_t distance);

  std::array<std::uint16_t, std::size_t{1} << kTableBits>
      last_seen_{};  // Place + 1 of four bytes with this hash.
  std::vector<std::byte> out_;
};

// None: `in` is no output of a Compressor.
std::optional<std::vector<std::byte>> decompress(std::span<const std::byte> in);

}  // namespace yonder::bench::heap
