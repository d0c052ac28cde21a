#include "yonder/base/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "yonder/base/internal/config_names.h"
#include "yonder/base/internal/config_value.h"

namespace yonder {
namespace {

using internal::environment_name;

bool is_word(std::string_view word) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !word.empty() && word[0] >= 'a' && word[0] <= 'z' && std::ranges::all_of(word, allowed);
}

// Words joined by points.
bool is_name(std::string_view name) {
  for (;;) {
    const std::size_t point = name.find('.');
    if (!is_word(name.substr(0, point))) return false;
    if (point == std::string_view::npos) return true;
    name.remove_prefix(point + 1);
  }
}

bool is_alias(std::string_view alias) {
  if (alias.starts_with("--")) return is_word(alias.substr(2));
  return alias.size() == 2 && alias[0] == '-' && is_word(alias.substr(1));
}

// Whether `inner` lies in a section that is called `outer`: TOML cannot hold both.
bool is_section_of(std::string_view outer, std::string_view inner) {
  return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.';
}

bool has_range(const ConfigEntry& entry) { return entry.min.has_value() || entry.max.has_value(); }

bool is_ordered_type(const ConfigValue& value) {
  return !std::holds_alternative<bool>(value) && !std::holds_alternative<std::string>(value);
}

std::string_view section_of(std::string_view name) {
  const std::size_t point = name.rfind('.');
  return point == std::string_view::npos ? std::string_view() : name.substr(0, point);
}

std::string_view key_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

std::size_t ConfigSchema::add_entry(ConfigEntry entry) {
  YONDER_CHECK(is_name(entry.name), "an option's name is section.key in snake_case");
  YONDER_CHECK(!internal::is_built_in(internal::flag_name(entry.name)), "the name is a built-in flag");
  YONDER_CHECK(entry.alias.empty() || (is_alias(entry.alias) && !internal::is_built_in(entry.alias)),
               "an alias is a flag: -x or --word");
  YONDER_CHECK(!has_range(entry) || is_ordered_type(entry.fallback), "only quantities have a range");
  YONDER_CHECK(internal::range_problem(entry, entry.fallback).empty(), "the default is allowed");
  for (const ConfigEntry& other : entries_) {
    YONDER_CHECK(environment_name(other.name) != environment_name(entry.name), "two options share a name");
    YONDER_CHECK(!is_section_of(other.name, entry.name) && !is_section_of(entry.name, other.name),
                 "an option and a section share a name");
    YONDER_CHECK(entry.alias.empty() || other.alias != entry.alias, "two options share an alias");
  }
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

std::string ConfigSchema::help() const {
  std::string out;
  for (const ConfigEntry& entry : entries_) {
    const std::string alias = entry.alias.empty() ? "" : entry.alias + ", ";
    const std::string fallback = entry.secret ? "hidden" : internal::toml_text(entry.fallback);
    out += fmt::format("  {}--{}\n      {}\n      {}; default {}; {}\n", alias, entry.name, entry.help,
                       internal::expected_form(entry), fallback, environment_name(entry.name));
  }
  return out;
}

std::int64_t Config::choice_number(std::size_t index) const {
  const auto* name = std::get_if<std::string>(&setting(index).value);
  YONDER_CHECK(name != nullptr, "the option belongs to another schema");
  const auto& choices = entries_[index].choices;
  const auto found = std::ranges::find(choices, *name, &std::pair<std::string, std::int64_t>::first);
  YONDER_CHECK(found != choices.end(), "a loaded choice is one of the choices");
  return found->second;
}

std::string Config::print() const {
  // Keys before the first table header belong to no section: "" sorts first.
  std::map<std::string_view, std::string> sections;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const ConfigEntry& entry = entries_[i];
    const std::string_view key = key_of(entry.name);
    const std::string text = internal::toml_text(settings_[i].value);
    const std::string line =
        entry.secret ? fmt::format("# {} is secret", key) : fmt::format("{} = {}", key, text);
    sections[section_of(entry.name)] += fmt::format("{:<40} # {}\n", line, settings_[i].origin.where);
  }
  std::string out;
  for (const auto& [section, lines] : sections) {
    if (!section.empty()) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    out += lines;
  }
  return out;
}

}  // namespace yonder
