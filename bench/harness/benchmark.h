#pragma once
// What a benchmark is: a name, a sentence, and a function that fills a report.
//
// `yonder bench NAME` finds it in the list of bench/all.h. A benchmark that
// cannot run here (no device, no peer program) returns the error that says so.
//
// Concurrency: one benchmark runs at a time.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder {
class Progress;
}

namespace yonder::bench {

struct Options {
  std::string fabric = "all";  // shm, tcp, verbs, sim, or all that can run here
  bool quick = false;          // ends within 60 s on two cores
  std::uint64_t seed = 1;
  std::string program;                            // path of the yonder program, to start targets with
  std::map<std::string, std::string> parameters;  // --set key=value

  bool wants(std::string_view provider) const { return fabric == "all" || fabric == provider; }
};

// Calls measure(provider) for each of `providers` that was asked for, in order. What is added
// to the report for "sim" is simulated.
template <typename Measure>
Result<void> for_providers(const Options& options, Report& report,
                           std::initializer_list<const char*> providers, Measure measure) {
  for (const std::string provider : providers) {
    if (!options.wants(provider)) continue;
    report.set_simulated(provider == "sim");
    const Result<void> measured = measure(provider);
    report.set_simulated(false);
    if (!measured) return measured;
  }
  return {};
}

// Of keys of a benchmark that has the same ones for every provider: with --fabric all, those of
// real ones begin with the provider's name.
inline std::string key_prefix(const Options& options, const std::string& provider) {
  return options.fabric == "all" && provider != "sim" ? provider + "_" : "";
}

struct Benchmark {
  std::string_view name;
  std::string_view summary;
  Result<void> (*run)(const Options& options, Report& report);
};

}  // namespace yonder::bench
