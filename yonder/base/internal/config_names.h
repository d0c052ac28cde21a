#pragma once
// How the name of an option is spelt in the environment and as a flag.
//
// Concurrency: pure functions.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace yonder::internal {

inline constexpr std::string_view kEnvironmentPrefix = "YONDER_";
inline constexpr std::string_view kTestPrefix = "YONDER_TEST_";
inline constexpr std::string_view kFileVariable = "YONDER_CONFIG";

// "fabric.depth" is YONDER_FABRIC_DEPTH.
inline std::string environment_name(std::string_view name) {
  std::string out(kEnvironmentPrefix);
  for (const char c : name) {
    const bool lower = c >= 'a' && c <= 'z';
    out += lower ? static_cast<char>(c - 'a' + 'A') : (c == '.' ? '_' : c);
  }
  return out;
}

inline std::string flag_name(std::string_view name) { return "--" + std::string(name); }

inline constexpr std::array<std::string_view, 5> kBuiltInFlags = {"--config", "--print-config", "--help",
                                                                  "-h", "--version"};
inline bool is_built_in(std::string_view flag) {
  return std::ranges::find(kBuiltInFlags, flag) != kBuiltInFlags.end();
}

}  // namespace yonder::internal
