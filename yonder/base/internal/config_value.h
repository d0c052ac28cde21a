#pragma once
// Text to a value of an option's type, within its range, and back.
//
// Concurrency: pure functions.

#include <expected>
#include <string>
#include <string_view>

#include "yonder/base/config.h"

namespace yonder::internal {

// "an integer", "one of: table, mmap", as it reads after "expected".
std::string expected_form(const ConfigEntry& entry);

// The value, or what is wrong with it, without the place: "expected an integer",
// "must be between 1 and 4096".
std::expected<ConfigValue, std::string> parse_value(const ConfigEntry& entry, std::string_view text);

// Whether `value` is in the entry's range and among its choices; "" or what is wrong.
std::string range_problem(const ConfigEntry& entry, const ConfigValue& value);

// The value as TOML: 64, "64KiB", true, "text".
std::string toml_text(const ConfigValue& value);

}  // namespace yonder::internal
