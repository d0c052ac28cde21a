#pragma once
// Configuration: a TOML file, overridden by the environment, overridden by flags.
//
// A program declares its options once; names, types, defaults, ranges and help are
// then the same in all three places:
//
//   ConfigSchema schema;
//   const auto depth = schema.add<std::int64_t>(
//       {.name = "fabric.depth", .fallback = 64, .help = "operations outstanding", .min = 1, .max = 4096});
//   auto config = load_config(schema, config_sources(argc, argv));
//   if (!config) return usage_error(config.error().message);
//   config->get(depth);
//
//   file         [fabric]
//                depth = 128
//   environment  YONDER_FABRIC_DEPTH=128
//   flags        --fabric.depth=128   or   --fabric.depth 128   or the option's alias
//
// Nothing is ignored: a key of the file, a variable that begins with YONDER_ or a flag
// that is no option is an error that says where it stands and what was probably meant.
// (YONDER_TEST_… belongs to the test programs and is left alone.)
//
// Built in: --config FILE (or YONDER_CONFIG) names the file; --print-config, --help and
// --version only set their bit in Config; "--" ends the flags.
//
// Text forms: bool true/false; integers and decimals plain; Bytes "64KiB"; Duration
// "50us" (units.h). A flag of type bool may stand alone, for true.
//
// Concurrency: build a schema and load in one thread; a Config is immutable. Lifetime:
// a Config owns all it returns and does not need its schema or sources any more.
// Errors need text that names keys, which Error cannot carry: hence ConfigError.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/base/id.h"
#include "yonder/base/time.h"

namespace yonder {

// One sentence for the user, beginning with the place: "yonder.toml:12: …".
struct ConfigError {
  std::string message;
};

// A choice is stored by its name.
using ConfigValue = std::variant<bool, std::int64_t, double, Bytes, Duration, std::string>;

template <typename T>
concept ConfigScalar =
    std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
    std::is_same_v<T, Bytes> || std::is_same_v<T, Duration> || std::is_same_v<T, std::string>;

// Names an option of type T in a schema and in every Config loaded with it.
template <typename T>
class Option {
 private:
  friend class ConfigSchema;
  friend class Config;
  explicit Option(std::size_t index) : index_(index) {}
  std::size_t index_;
};

template <ConfigScalar T>
struct OptionSpec {
  std::string name;      // "section.key" in snake_case; sections may nest.
  T fallback{};          // The default.
  std::string help;      // One line.
  std::optional<T> min;  // Both included. Not for bool and string.
  std::optional<T> max;
  std::string alias;    // A further flag: "-d" or "--depth".
  bool secret = false;  // Never printed.
};

template <typename E>
struct ChoiceSpec {
  std::string name;
  E fallback{};
  std::string help;
  std::vector<std::pair<std::string, E>> choices;  // At least one; the fallback among them.
  std::string alias;
};

// An option without its type, as the loader sees it.
struct ConfigEntry {
  std::string name;
  ConfigValue fallback;
  std::string help;
  std::optional<ConfigValue> min;
  std::optional<ConfigValue> max;
  std::string alias;
  bool secret = false;
  std::vector<std::pair<std::string, std::int64_t>> choices;  // Empty: no choice.
};

class ConfigSchema {
 public:
  // Both require, and check, that name, alias and environment name are new and well
  // formed and that the fallback is allowed: a schema is code, not input.
  template <ConfigScalar T>
  Option<T> add(OptionSpec<T> spec);
  template <typename E>
    requires std::is_enum_v<E>
  Option<E> add_choice(ChoiceSpec<E> spec);

  // All options with type, default and help, in the order of their declaration.
  std::string help() const;

  const std::vector<ConfigEntry>& entries() const { return entries_; }

 private:
  std::size_t add_entry(ConfigEntry entry);
  std::vector<ConfigEntry> entries_;
};

// Where a value came from.
struct ConfigOrigin {
  enum class Kind : std::uint8_t { kDefault, kFile, kEnvironment, kFlag };
  Kind kind = Kind::kDefault;
  std::string where = "default";  // "yonder.toml:12", "YONDER_FABRIC_DEPTH", "--fabric.depth".
};

struct ConfigSources {
  std::vector<std::string> arguments;    // Without the program's name.
  std::vector<std::string> environment;  // "NAME=value".
  std::string default_file;              // Read if it exists and no other file is named.
  bool allow_positional = false;         // Else an argument that is no flag is an error.
};

class Config {
 public:
  // Requires an option of the schema this was loaded with.
  template <typename T>
  T get(Option<T> option) const;
  template <typename T>
  const ConfigOrigin& origin(Option<T> option) const {
    return setting(option.index_).origin;
  }

  const std::vector<std::string>& positional() const { return positional_; }
  bool help_requested() const { return help_; }
  bool print_requested() const { return print_; }
  bool version_requested() const { return version_; }

  // The whole configuration as a TOML file that loads to the same values, with the
  // origin of each in a comment. Secrets are commented out and not shown.
  std::string print() const;

 private:
  friend class ConfigLoader;

  struct Setting {
    ConfigValue value;
    ConfigOrigin origin;
  };

  Config() = default;
  const Setting& setting(std::size_t index) const {
    YONDER_CHECK(index < settings_.size(), "the option belongs to another schema");
    return settings_[index];
  }
  std::int64_t choice_number(std::size_t index) const;

  std::vector<ConfigEntry> entries_;
  std::vector<Setting> settings_;  // One per entry.
  std::vector<std::string> positional_;
  bool help_ = false;
  bool print_ = false;
  bool version_ = false;
};

// What main() was given, and the environment of the process.
ConfigSources config_sources(int argc, const char* const* argv);

std::expected<Config, ConfigError> load_config(const ConfigSchema& schema, const ConfigSources& sources);

template <ConfigScalar T>
Option<T> ConfigSchema::add(OptionSpec<T> spec) {
  return Option<T>(add_entry({.name = std::move(spec.name),
                              .fallback = std::move(spec.fallback),
                              .help = std::move(spec.help),
                              .min = std::move(spec.min),
                              .max = std::move(spec.max),
                              .alias = std::move(spec.alias),
                              .secret = spec.secret}));
}

template <typename E>
  requires std::is_enum_v<E>
Option<E> ConfigSchema::add_choice(ChoiceSpec<E> spec) {
  ConfigEntry entry{
      .name = std::move(spec.name), .help = std::move(spec.help), .alias = std::move(spec.alias)};
  for (auto& [name, value] : spec.choices) {
    if (value == spec.fallback) entry.fallback = name;
    entry.choices.emplace_back(std::move(name), static_cast<std::int64_t>(value));
  }
  return Option<E>(add_entry(std::move(entry)));
}

template <typename T>
T Config::get(Option<T> option) const {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(choice_number(option.index_));
  } else {
    const T* value = std::get_if<T>(&setting(option.index_).value);
    YONDER_CHECK(value != nullptr, "the option belongs to another schema");
    return *value;
  }
}

}  // namespace yonder
