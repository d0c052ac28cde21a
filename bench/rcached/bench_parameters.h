#pragma once
// What was given on the command line beyond the flags that all benchmarks have.
//
// Concurrency: pure functions.

#include <charconv>
#include <cstdint>
#include <string>

#include "bench/harness/benchmark.h"

namespace yonder::bench {

// `fallback` also for what is no number.
inline std::uint64_t number_parameter(const Options& options, const std::string& name,
                                      std::uint64_t fallback) {
  const auto found = options.parameters.find(name);
  if (found == options.parameters.end()) return fallback;
  std::uint64_t value = fallback;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

inline std::string text_parameter(const Options& options, const std::string& name,
                                  const std::string& fallback) {
  const auto found = options.parameters.find(name);
  return found == options.parameters.end() ? fallback : found->second;
}

}  // namespace yonder::bench
