// Loading: which text each source gives for which option, and in which order.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "yonder/base/config.h"
#include "yonder/base/internal/config_names.h"
#include "yonder/base/internal/config_toml.h"
#include "yonder/base/internal/config_value.h"
#include "yonder/base/internal/nearest.h"

namespace yonder {

using internal::environment_name;
using internal::flag_name;
using internal::TomlType;

using Done = std::expected<void, ConfigError>;

namespace {

std::unexpected<ConfigError> problem(std::string message) {
  return std::unexpected(ConfigError{std::move(message)});
}

// Whether a TOML value of this type may be meant for the option: "5" is no integer.
bool accepts(const ConfigEntry& entry, TomlType type) {
  switch (type) {
    case TomlType::kBool:
      return std::holds_alternative<bool>(entry.fallback);
    case TomlType::kFloat:
      return std::holds_alternative<double>(entry.fallback);
    case TomlType::kInteger:
      return !std::holds_alternative<bool>(entry.fallback) &&
             !std::holds_alternative<std::string>(entry.fallback);
    case TomlType::kString:
      return std::holds_alternative<std::string>(entry.fallback) ||
             std::holds_alternative<Bytes>(entry.fallback) ||
             std::holds_alternative<Duration>(entry.fallback);
    case TomlType::kOther:
      break;
  }
  return false;
}

struct Flag {
  std::string_view name;
  std::optional<std::string_view> value;  // What follows '=', if anything does.
};

Flag split_flag(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string_view::npos) return {.name = argument, .value = std::nullopt};
  return {.name = argument.substr(0, equals), .value = argument.substr(equals + 1)};
}

}  // namespace

class ConfigLoader {
 public:
  ConfigLoader(const ConfigSchema& schema, const ConfigSources& sources) : sources_(sources) {
    config_.entries_ = schema.entries();
    for (const ConfigEntry& entry : config_.entries_) {
      config_.settings_.push_back({.value = entry.fallback, .origin = {}});
    }
  }

  std::expected<Config, ConfigError> load() {
    // Flags are read first, because one of them names the file, and applied last.
    if (Done done = read_flags(); !done) return std::unexpected(done.error());
    if (Done done = apply_file(); !done) return std::unexpected(done.error());
    if (Done done = apply_environment(); !done) return std::unexpected(done.error());
    for (const auto& [index, text, where] : flags_) {
      if (Done done = set(index, text, {.kind = ConfigOrigin::Kind::kFlag, .where = where}); !done) {
        return std::unexpected(done.error());
      }
    }
    return std::move(config_);
  }

 private:
  struct FlagSetting {
    std::size_t index;
    std::string text;
    std::string where;
  };

  Done set(std::size_t index, std::string_view text, ConfigOrigin origin) {
    auto value = internal::parse_value(config_.entries_[index], text);
    if (!value)
      return problem(fmt::format("{}: {}", assignment(config_.entries_[index], text, origin), value.error()));
    config_.settings_[index] = {.value = std::move(*value), .origin = std::move(origin)};
    return {};
  }

  // What the user wrote, as the user wrote it: "yonder.toml:12: fabric.depth = x",
  // "--fabric.depth=x".
  static std::string assignment(const ConfigEntry& entry, std::string_view text, const ConfigOrigin& origin) {
    const std::string_view shown = entry.secret ? "(secret)" : text;
    if (origin.kind == ConfigOrigin::Kind::kFile)
      return fmt::format("{}: {} = {}", origin.where, entry.name, shown);
    return fmt::format("{}={}", origin.where, shown);
  }

  // The index of the entry for which `matches` holds.
  template <typename Matches>
  std::optional<std::size_t> find(Matches matches) const {
    const auto found = std::ranges::find_if(config_.entries_, matches);
    if (found == config_.entries_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - config_.entries_.begin());
  }

  template <typename Spell>
  std::vector<std::string> spelt(Spell spell) const {
    std::vector<std::string> names;
    for (const ConfigEntry& entry : config_.entries_) names.push_back(spell(entry.name));
    return names;
  }

  Done apply_file() {
    const bool named = !file_.empty();
    if (!named) file_ = sources_.default_file;
    if (file_.empty() || (!named && ::access(file_.c_str(), F_OK) != 0)) return {};
    const auto settings = internal::read_toml(file_);
    if (!settings) return std::unexpected(settings.error());
    for (const internal::TomlSetting& setting : *settings) {
      const std::string where = fmt::format("{}:{}", file_, setting.line);
      const auto index = find([&](const ConfigEntry& entry) { return entry.name == setting.key; });
      if (!index) {
        const auto names = spelt([](const std::string& name) { return name; });
        return problem(fmt::format("{}: unknown key {}{}", where, setting.key,
                                   internal::suggestion(setting.key, names)));
      }
      const ConfigEntry& entry = config_.entries_[*index];
      if (!accepts(entry, setting.type)) {
        return problem(fmt::format("{}: {}: expected {}, found {}", where, setting.key,
                                   internal::expected_form(entry), internal::type_name(setting.type)));
      }
      Done done = set(*index, setting.text, {.kind = ConfigOrigin::Kind::kFile, .where = where});
      if (!done) return done;
    }
    return {};
  }

  Done apply_environment() {
    for (const std::string& variable : sources_.environment) {
      const std::size_t equals = variable.find('=');
      if (equals == std::string::npos || !variable.starts_with(internal::kEnvironmentPrefix)) continue;
      const std::string name = variable.substr(0, equals);
      if (name == internal::kFileVariable || name.starts_with(internal::kTestPrefix)) continue;
      const auto index = find([&](const ConfigEntry& entry) { return environment_name(entry.name) == name; });
      if (!index) {
        return problem(fmt::format("environment: {} is no option of this program{}", name,
                                   internal::suggestion(name, spelt(environment_name))));
      }
      Done done = set(*index, std::string_view(variable).substr(equals + 1),
                      {.kind = ConfigOrigin::Kind::kEnvironment, .where = name});
      if (!done) return done;
    }
    return {};
  }

  Done read_flags() {
    for (const std::string& variable : sources_.environment) {
      const std::string prefix = std::string(internal::kFileVariable) + "=";
      if (variable.starts_with(prefix)) file_ = variable.substr(prefix.size());
    }
    std::span<const std::string> rest = sources_.arguments;
    while (!rest.empty()) {
      const std::string& argument = rest.front();
      rest = rest.subspan(1);
      if (argument == "--") {
        for (const std::string& positional : rest) {
          if (Done done = add_positional(positional); !done) return done;
        }
        return {};
      }
      const bool is_flag = argument.size() > 1 && argument[0] == '-';
      Done done = is_flag ? read_flag(split_flag(argument), rest) : add_positional(argument);
      if (!done) return done;
    }
    return {};
  }

  Done add_positional(const std::string& argument) {
    if (!sources_.allow_positional) {
      return problem(fmt::format("{}: unexpected argument; flags begin with --", argument));
    }
    config_.positional_.push_back(argument);
    return {};
  }

  // Takes the flag's value from `rest` if the flag needs one and has none.
  Done read_flag(const Flag& flag, std::span<const std::string>& rest) {
    if (internal::is_built_in(flag.name)) return read_built_in(flag, rest);
    const auto index = find([&](const ConfigEntry& entry) {
      return flag.name == flag_name(entry.name) || flag.name == entry.alias;
    });
    if (!index) return unknown_flag(flag.name);
    std::string text = "true";
    if (flag.value || !std::holds_alternative<bool>(config_.entries_[*index].fallback)) {
      auto value = value_of(flag, rest);
      if (!value) return std::unexpected(value.error());
      text = std::move(*value);
    }
    flags_.push_back({.index = *index, .text = std::move(text), .where = std::string(flag.name)});
    return {};
  }

  Done read_built_in(const Flag& flag, std::span<const std::string>& rest) {
    if (flag.name == "--config") {
      auto path = value_of(flag, rest);
      if (!path) return std::unexpected(path.error());
      if (path->empty()) return problem("--config: expected the name of a file");
      file_ = std::move(*path);
      return {};
    }
    if (flag.value) return problem(fmt::format("{}: takes no value", flag.name));
    if (flag.name == "--print-config") config_.print_ = true;
    if (flag.name == "--version") config_.version_ = true;
    if (flag.name == "--help" || flag.name == "-h") config_.help_ = true;
    return {};
  }

  static std::expected<std::string, ConfigError> value_of(const Flag& flag,
                                                          std::span<const std::string>& rest) {
    if (flag.value) return std::string(*flag.value);
    if (rest.empty()) return problem(fmt::format("{}: expected a value", flag.name));
    std::string value = rest.front();
    rest = rest.subspan(1);
    return value;
  }

  Done unknown_flag(std::string_view name) const {
    std::vector<std::string> known = spelt(flag_name);
    for (const ConfigEntry& entry : config_.entries_) {
      if (!entry.alias.empty()) known.push_back(entry.alias);
    }
    known.insert(known.end(), internal::kBuiltInFlags.begin(), internal::kBuiltInFlags.end());
    return problem(fmt::format("{}: unknown flag{}", name, internal::suggestion(name, known)));
  }

  const ConfigSources& sources_;
  Config config_;
  std::string file_;
  std::vector<FlagSetting> flags_;  // In the order given; the last of equal ones wins.
};

ConfigSources config_sources(int argc, const char* const* argv) {
  ConfigSources sources;
  for (int i = 1; i < argc; ++i) sources.arguments.emplace_back(argv[i]);
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
    sources.environment.emplace_back(*variable);
  }
  return sources;
}

std::expected<Config, ConfigError> load_config(const ConfigSchema& schema, const ConfigSources& sources) {
  return ConfigLoader(schema, sources).load();
}

}  // namespace yonder
