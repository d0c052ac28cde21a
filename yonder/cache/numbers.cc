#include "yonder/cache/numbers.h"

#include <charconv>
#include <limits>

namespace yonder::cache {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

struct SignedDigits {
  bool negative = false;
  std::uint64_t magnitude = 0;
};

// The number at the start of `text`; nothing if there is none, it does not fit in 64 bits
// or something other than white space follows.
std::optional<SignedDigits> read_digits(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && is_space(text[at])) ++at;
  SignedDigits out;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) out.negative = text[at++] == '-';
  const std::size_t first = at;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    const auto digit = static_cast<std::uint64_t>(text[at] - '0');
    if (__builtin_mul_overflow(out.magnitude, std::uint64_t{10}, &out.magnitude) ||
        __builtin_add_overflow(out.magnitude, digit, &out.magnitude)) {
      return std::nullopt;
    }
  }
  if (at == first || (at < text.size() && text[at] != '\0' && !is_space(text[at]))) return std::nullopt;
  return out;
}

}  // namespace

std::optional<std::int32_t> parse_i32(std::string_view text) {
  const std::optional<SignedDigits> digits = read_digits(text);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!digits || digits->magnitude > kMax + (digits->negative ? 1 : 0)) return std::nullopt;
  const std::uint64_t wrapped = digits->negative ? 0 - digits->magnitude : digits->magnitude;
  return static_cast<std::int32_t>(wrapped);
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  const std::optional<SignedDigits> digits = read_digits(text);
  if (!digits) return std::nullopt;
  const std::uint64_t value = digits->negative ? 0 - digits->magnitude : digits->magnitude;
  if (static_cast<std::int64_t>(value) < 0 && text.find('-') != std::string_view::npos) return std::nullopt;
  return value;
}

std::optional<std::uint32_t> parse_u32(std::string_view text) {
  const std::optional<std::uint64_t> wide = parse_u64(text);
  if (!wide) return std::nullopt;
  return static_cast<std::uint32_t>(*wide);
}

std::optional<double> parse_decimal(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ends = end == text.data() + text.size() || is_space(*end);
  if (error != std::errc() || !ends) return std::nullopt;
  return value;
}

}  // namespace yonder::cache
