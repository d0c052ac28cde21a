#include "bench/heap/compress.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"

namespace yonder::bench::heap {
namespace {

constexpr std::size_t kMinMatch = 4;
constexpr std::size_t kHalfFull = 15;

std::uint32_t four_bytes(const std::byte* at) {
  std::uint32_t word;
  std::memcpy(&word, at, 4);
  return word;
}

// A length of which a token's half said kHalfFull or less. False: the input ends in it.
bool take_length(std::span<const std::byte>& in, std::size_t& length) {
  if (length != kHalfFull) return true;
  for (;;) {
    if (in.empty()) return false;
    const auto more = std::to_integer<std::size_t>(in[0]);
    in = in.subspan(1);
    length += more;
    if (more != 255) return true;
  }
}

}  // namespace

void Compressor::put_length(std::size_t length) {
  if (length < kHalfFull) return;
  for (length -= kHalfFull; length >= 255; length -= 255) out_.push_back(std::byte{255});
  out_.push_back(static_cast<std::byte>(length));
}

// A match of 0 is none: the end.
void Compressor::put(std::span<const std::byte> literals, std::size_t match, std::size_t distance) {
  const std::size_t extra = match == 0 ? 0 : match - kMinMatch;
  out_.push_back(
      static_cast<std::byte>(std::min(literals.size(), kHalfFull) << 4 | std::min(extra, kHalfFull)));
  put_length(literals.size());
  out_.insert(out_.end(), literals.begin(), literals.end());
  if (match == 0) return;
  out_.push_back(static_cast<std::byte>(distance & 0xff));
  out_.push_back(static_cast<std::byte>(distance >> 8));
  put_length(extra);
}

std::span<const std::byte> Compressor::compress(std::span<const std::byte> in) {
  YONDER_CHECK(in.size() <= UINT16_MAX, "places are 16 bits");
  out_.clear();
  last_seen_.fill(0);
  std::size_t written = 0;
  for (std::size_t at = 0; at + kMinMatch <= in.size();) {
    const std::uint32_t word = four_bytes(&in[at]);
    std::uint16_t& seen = last_seen_[word * 2654435761u >> (32 - kTableBits)];
    const std::size_t before = seen;
    seen = static_cast<std::uint16_t>(at + 1);
    if (before == 0 || four_bytes(&in[before - 1]) != word) {
      ++at;
      continue;
    }
    std::size_t match = kMinMatch;
    while (at + match < in.size() && in[before - 1 + match] == in[at + match]) ++match;
    put(in.subspan(written, at - written), match, at + 1 - before);
    at += match;
    written = at;
  }
  put(in.subspan(written), 0, 0);
  return out_;
}

std::optional<std::vector<std::byte>> decompress(std::span<const std::byte> in) {
  std::vector<std::byte> out;
  while (!in.empty()) {
    const auto token = std::to_integer<std::size_t>(in[0]);
    in = in.subspan(1);
    std::size_t literals = token >> 4;
    if (!take_length(in, literals) || literals > in.size()) return std::nullopt;
    out.insert(out.end(), in.begin(), in.begin() + static_cast<std::ptrdiff_t>(literals));
    in = in.subspan(literals);
    if (in.empty()) return out;
    if (in.size() < 2) return std::nullopt;
    const std::size_t distance = std::to_integer<std::size_t>(in[0]) | std::to_integer<std::size_t>(in[1])
                                                                           << 8;
    in = in.subspan(2);
    std::size_t match = token & 15;
    if (!take_length(in, match) || distance == 0 || distance > out.size()) return std::nullopt;
    for (match += kMinMatch; match != 0; --match) out.push_back(out[out.size() - distance]);
  }
  return std::nullopt;
}

}  // namespace yonder::bench::heap
