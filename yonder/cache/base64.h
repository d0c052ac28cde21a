#pragma once
// Base64 (RFC 4648) of keys, with memcached's tolerance: characters that are not of the
// alphabet are skipped, padding is required.
//
// Concurrency: pure functions.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace yonder::cache {

// Bytes of `text`, written to `out`; how many. Nothing if the alphabet's characters in
// it are none or no multiple of four, the padding is wrong, or `out` is too small.
std::optional<std::size_t> decode_base64(std::string_view text, std::span<char> out);

constexpr std::size_t base64_bytes(std::size_t bytes) { return (bytes + 2) / 3 * 4; }
// Requires that `out` has base64_bytes(bytes.size()). Returns that number.
std::size_t encode_base64(std::string_view bytes, std::span<char> out);

}  // namespace yonder::cache
