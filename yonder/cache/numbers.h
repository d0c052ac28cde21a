#pragma once
// Numbers as memcached reads them: with the C library's strtol family.
//
// That is more liberal than it looks, and clients depend on the replies: leading white
// space and a sign are fine, a number may be followed by white space and then anything,
// 32-bit numbers are read with 64 bits and cut off, and a minus before an unsigned number
// is refused only if what it makes is negative as a signed one. The text need not end
// with a NUL byte here; its end counts as one.
//
// Concurrency: pure functions.

#include <cstdint>
#include <optional>
#include <string_view>

namespace yonder::cache {

std::optional<std::int32_t> parse_i32(std::string_view text);
std::optional<std::uint32_t> parse_u32(std::string_view text);
std::optional<std::uint64_t> parse_u64(std::string_view text);
// Decimal, with the same liberties.
std::optional<double> parse_decimal(std::string_view text);

}  // namespace yonder::cache
