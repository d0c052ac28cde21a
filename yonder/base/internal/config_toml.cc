#include "yonder/base/internal/config_toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <tuple>

namespace yonder::internal {
namespace {

TomlSetting make_setting(std::string key, const toml::node& node) {
  TomlSetting setting{
      .key = std::move(key), .line = node.source().begin.line, .type = TomlType::kOther, .text = {}};
  if (const auto* boolean = node.as_boolean()) {
    setting.type = TomlType::kBool;
    setting.text = boolean->get() ? "true" : "false";
  } else if (const auto* integer = node.as_integer()) {
    setting.type = TomlType::kInteger;
    setting.text = fmt::format("{}", integer->get());
  } else if (const auto* real = node.as_floating_point()) {
    setting.type = TomlType::kFloat;
    setting.text = fmt::format("{}", real->get());
  } else if (const auto* string = node.as_string()) {
    setting.type = TomlType::kString;
    setting.text = string->get();
  }
  return setting;
}

// Recursion is bounded: toml++ refuses tables nested deeper than 256.
void flatten(const toml::table& table, const std::string& prefix, std::vector<TomlSetting>& out) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      flatten(*inner, full + ".", out);
    } else {
      out.push_back(make_setting(full, node));
    }
  }
}

std::expected<std::string, ConfigError> read_text(const std::string& path) {
  errno = 0;
  std::ifstream in(path);
  std::ostringstream text;
  // Inserting an empty buffer sets failbit, so an empty file is told apart by peek().
  if (in && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (!in.is_open() || in.bad() || errno == EISDIR) {
    return std::unexpected(ConfigError{fmt::format("{}: cannot be read: {}", path, std::strerror(errno))});
  }
  return std::move(text).str();
}

}  // namespace

std::string_view type_name(TomlType type) {
  switch (type) {
    case TomlType::kBool:
      return "a boolean";
    case TomlType::kInteger:
      return "an integer";
    case TomlType::kFloat:
      return "a decimal number";
    case TomlType::kString:
      return "a string";
    case TomlType::kOther:
      break;
  }
  return "an array or a date";
}

std::expected<std::vector<TomlSetting>, ConfigError> read_toml(const std::string& path) {
  auto text = read_text(path);
  if (!text) return std::unexpected(text.error());
  std::vector<TomlSetting> settings;
  try {
    flatten(toml::parse(*text), "", settings);
  } catch (const toml::parse_error& error) {
    return std::unexpected(
        ConfigError{fmt::format("{}:{}: {}", path, error.source().begin.line, error.description())});
  }
  // Tables come sorted by key; the reader's first mistake is the one that comes first.
  std::ranges::sort(settings, {},
                    [](const TomlSetting& setting) { return std::tie(setting.line, setting.key); });
  return settings;
}

}  // namespace yonder::internal
