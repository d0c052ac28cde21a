#include "yonder/base/internal/config_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "yonder/base/internal/nearest.h"
#include "yonder/base/units.h"

namespace yonder::internal {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [parsed_end, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || parsed_end != end) return std::nullopt;
  return number;
}

std::vector<std::string> choice_names(const ConfigEntry& entry) {
  std::vector<std::string> names;
  for (const auto& [name, number] : entry.choices) names.push_back(name);
  return names;
}

std::string toml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < ' ' || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// One overload per type: the text as that type, or nullopt. The first parameter only
// chooses the overload.
std::optional<ConfigValue> parse_as(bool, std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}
std::optional<ConfigValue> parse_as(std::int64_t, std::string_view text) {
  const auto number = parse_number<std::int64_t>(text);
  return number ? std::optional<ConfigValue>(*number) : std::nullopt;
}
std::optional<ConfigValue> parse_as(double, std::string_view text) {
  const auto number = parse_number<double>(text);
  return number && std::isfinite(*number) ? std::optional<ConfigValue>(*number) : std::nullopt;
}
std::optional<ConfigValue> parse_as(Bytes, std::string_view text) {
  const auto bytes = parse_bytes(text);
  return bytes ? std::optional<ConfigValue>(*bytes) : std::nullopt;
}
std::optional<ConfigValue> parse_as(Duration, std::string_view text) {
  const auto duration = parse_duration(text);
  return duration ? std::optional<ConfigValue>(*duration) : std::nullopt;
}
std::optional<ConfigValue> parse_as(const std::string&, std::string_view text) { return std::string(text); }

}  // namespace

std::string expected_form(const ConfigEntry& entry) {
  if (!entry.choices.empty()) return fmt::format("one of: {}", fmt::join(choice_names(entry), ", "));
  return std::visit(Overloaded{
                        [](bool) { return "true or false"; },
                        [](std::int64_t) { return "an integer"; },
                        [](double) { return "a number"; },
                        [](Bytes) { return "an amount like 64KiB"; },
                        [](Duration) { return "a duration with its unit, like 50us"; },
                        [](const std::string&) { return "text"; },
                    },
                    entry.fallback);
}

std::string range_problem(const ConfigEntry& entry, const ConfigValue& value) {
  if (!entry.choices.empty()) {
    const auto names = choice_names(entry);
    const auto* name = std::get_if<std::string>(&value);
    if (name != nullptr && std::ranges::find(names, *name) != names.end()) return {};
    return fmt::format("expected {}{}", expected_form(entry),
                       suggestion(name != nullptr ? *name : "", names));
  }
  // Variants of one alternative compare as their values do.
  const bool low = entry.min && value < *entry.min;
  const bool high = entry.max && value > *entry.max;
  if (!low && !high) return {};
  if (!entry.max) return fmt::format("must be at least {}", toml_text(*entry.min));
  if (!entry.min) return fmt::format("must be at most {}", toml_text(*entry.max));
  return fmt::format("must be between {} and {}", toml_text(*entry.min), toml_text(*entry.max));
}

std::expected<ConfigValue, std::string> parse_value(const ConfigEntry& entry, std::string_view text) {
  const auto value = std::visit([&](const auto& type) { return parse_as(type, text); }, entry.fallback);
  if (!value) return std::unexpected("expected " + expected_form(entry));
  if (std::string problem = range_problem(entry, *value); !problem.empty()) {
    return std::unexpected(std::move(problem));
  }
  return *value;
}

std::string toml_text(const ConfigValue& value) {
  return std::visit(Overloaded{
                        [](bool b) { return std::string(b ? "true" : "false"); },
                        [](std::int64_t number) { return fmt::format("{}", number); },
                        // "1" for 1.0, which TOML reads as an integer: a decimal option takes both.
                        [](double number) { return fmt::format("{}", number); },
                        [](Bytes bytes) { return toml_quoted(exact_string(bytes)); },
                        [](Duration duration) { return toml_quoted(exact_string(duration)); },
                        [](const std::string& text) { return toml_quoted(text); },
                    },
                    value);
}

}  // namespace yonder::internal
