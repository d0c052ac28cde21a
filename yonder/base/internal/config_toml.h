#pragma once
// A TOML file as a flat list of settings. toml++ is included by the .cc only.
//
// Concurrency: any thread.

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/config.h"

namespace yonder::internal {

enum class TomlType : std::uint8_t { kBool, kInteger, kFloat, kString, kOther };

struct TomlSetting {
  std::string key;  // "fabric.depth": the tables it stands in, joined by points.
  std::uint64_t line;
  TomlType type;
  std::string text;  // The scalar as parse_value() reads it; empty for kOther.
};

// In the order of the file. Errors: the file cannot be read or is no TOML.
std::expected<std::vector<TomlSetting>, ConfigError> read_toml(const std::string& path);

// "a string", for messages.
std::string_view type_name(TomlType type);

}  // namespace yonder::internal
