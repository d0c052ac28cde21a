#include "yonder/base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>

namespace yonder {
namespace {

// 128 bits hold the widest product below: 2^64 of any unit, or six decimal
// digits times one day in nanoseconds.
__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t scale;
};

constexpr std::uint64_t kKi = 1024;
constexpr std::uint64_t kK = 1000;

// The first five are also the output units, so they ascend.
constexpr Unit kByteUnits[] = {
    {"B", 1},   {"KiB", kKi},   {"MiB", kKi* kKi},  {"GiB", kKi* kKi* kKi}, {"TiB", kKi* kKi* kKi* kKi},
    {"KB", kK}, {"MB", kK* kK}, {"GB", kK* kK* kK}, {"TB", kK* kK* kK* kK},
};
constexpr std::span<const Unit> kByteOutput(kByteUnits, 5);

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr Unit kDurationUnits[] = {
    {"ns", 1},           {"us", 1000},          {"ms", 1'000'000},      {"s", kSecond},
    {"m", 60 * kSecond}, {"h", 3600 * kSecond}, {"d", 86400 * kSecond},
};
// Reports count seconds upwards from there: "95 s" is read faster than "1.58 m".
constexpr std::span<const Unit> kDurationReport(kDurationUnits, 4);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Number {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;        // Digits after the point as an integer…
  std::uint64_t fraction_scale = 1;  // …and the power of ten they are out of.
  std::string_view rest;             // What follows, without leading spaces.
};

constexpr std::size_t kMaxFractionDigits = 6;

Result<Number> parse_number(std::string_view text) {
  Number number;
  const char* const end = text.data() + text.size();
  const auto [after_whole, error] = std::from_chars(text.data(), end, number.whole);
  if (error == std::errc::result_out_of_range) return fail(ErrorCode::kInvalidArgument, "number too large");
  if (error != std::errc{}) return fail(ErrorCode::kInvalidArgument, "expected a number");
  const char* at = after_whole;
  if (at != end && *at == '.') {
    const char* const first = ++at;
    for (; at != end && is_digit(*at); ++at) {
      if (at - first == kMaxFractionDigits) return fail(ErrorCode::kInvalidArgument, "too many decimals");
      number.fraction = number.fraction * 10 + static_cast<std::uint64_t>(*at - '0');
      number.fraction_scale *= 10;
    }
    if (at == first) return fail(ErrorCode::kInvalidArgument, "expected digits after the point");
  }
  while (at != end && *at == ' ') ++at;
  number.rest = std::string_view(at, end);
  return number;
}

// The number in the smallest unit; refused unless it is whole and at most `limit`.
Result<std::uint64_t> scaled(const Number& number, std::uint64_t scale, std::uint64_t limit) {
  const Wide fraction = Wide{number.fraction} * scale;
  if (fraction % number.fraction_scale != 0) {
    return fail(ErrorCode::kInvalidArgument, "not a whole number of the smallest unit");
  }
  const Wide total = Wide{number.whole} * scale + fraction / number.fraction_scale;
  if (total > limit) return fail(ErrorCode::kInvalidArgument, "quantity too large");
  return static_cast<std::uint64_t>(total);
}

Result<std::uint64_t> scale_of(std::string_view name, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.scale;
  }
  return fail(ErrorCode::kInvalidArgument, "unknown unit");
}

// Three significant digits in the largest unit that keeps the number at least 1.
std::string rounded(double value, std::span<const Unit> units) {
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (std::abs(value) >= static_cast<double>(unit.scale)) best = &unit;
  }
  const double in_unit = value / static_cast<double>(best->scale);
  if (best == &units[0] || std::abs(in_unit) >= 100) return fmt::format("{:.0f} {}", in_unit, best->name);
  return fmt::format("{:.3g} {}", in_unit, best->name);
}

// The largest unit that divides the value.
std::string exact(std::uint64_t value, std::span<const Unit> units) {
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.scale == 0) best = &unit;
  }
  return fmt::format("{}{}", value / best->scale, best->name);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  YONDER_TRY(number, parse_number(text));
  YONDER_TRY(scale, number.rest.empty() ? Result<std::uint64_t>(1) : scale_of(number.rest, kByteUnits));
  YONDER_TRY(count, scaled(number, scale, std::numeric_limits<std::uint64_t>::max()));
  return Bytes(count);
}

Result<Duration> parse_duration(std::string_view text) {
  YONDER_TRY(number, parse_number(text));
  const bool is_zero = number.whole == 0 && number.fraction == 0;
  if (number.rest.empty() && !is_zero) {
    return fail(ErrorCode::kInvalidArgument, "a duration needs a unit: ns us ms s m h d");
  }
  YONDER_TRY(scale, number.rest.empty() ? Result<std::uint64_t>(1) : scale_of(number.rest, kDurationUnits));
  YONDER_TRY(count, scaled(number, scale, static_cast<std::uint64_t>(Duration::max().count())));
  return Duration(static_cast<Duration::rep>(count));
}

Result<double> parse_percent(std::string_view text) {
  YONDER_TRY(number, parse_number(text));
  if (number.rest != "%") return fail(ErrorCode::kInvalidArgument, "expected a percentage");
  const double percent = static_cast<double>(number.whole) +
                         static_cast<double>(number.fraction) / static_cast<double>(number.fraction_scale);
  if (percent > 100) return fail(ErrorCode::kInvalidArgument, "percentage above 100%");
  return percent / 100;
}

Result<Bytes> parse_bytes_of(std::string_view text, Bytes whole) {
  if (!text.ends_with('%')) return parse_bytes(text);
  YONDER_TRY(number, parse_number(text));
  if (number.rest != "%") return fail(ErrorCode::kInvalidArgument, "expected a percentage");
  // In integers, because a double cannot hold 100 % of 2^64 - 1.
  const Wide parts = Wide{number.whole} * number.fraction_scale + number.fraction;
  const Wide out_of = Wide{100} * number.fraction_scale;
  if (parts > out_of) return fail(ErrorCode::kInvalidArgument, "percentage above 100%");
  return Bytes(static_cast<std::uint64_t>(Wide{whole.count()} * parts / out_of));
}

std::string to_string(Bytes bytes) { return rounded(static_cast<double>(bytes.count()), kByteOutput); }
std::string exact_string(Bytes bytes) { return exact(bytes.count(), kByteOutput); }
std::string to_string(Duration duration) {
  return rounded(static_cast<double>(duration.count()), kDurationReport);
}

std::string exact_string(Duration duration) {
  // Negated as unsigned: the most negative count has no positive twin.
  const auto count = static_cast<std::uint64_t>(duration.count());
  if (duration.count() < 0) return "-" + exact(0 - count, kDurationUnits);
  return exact(count, kDurationUnits);
}

std::string count_string(double count) {
  static constexpr Unit kCounts[] = {{"", 1}, {"k", kK}, {"M", kK * kK}, {"G", kK * kK * kK}};
  std::string text = rounded(count, kCounts);
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace yonder
