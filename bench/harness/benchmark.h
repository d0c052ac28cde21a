#pragma once
// What a benchmark is: a name, a sentence, and a function that fills a report.
//
// `yonder bench NAME` finds it in the list of bench/all.h. A benchmark that
// cannot run here (no device, no peer program) returns the error that says so.
//
// Concurrency: one benchmark runs at a time.

#include <cstdint>
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

struct Benchmark {
  std::string_view name;
  std::string_view summary;
  Result<void> (*run)(const Options& options, Report& report);
};

}  // namespace yonder::bench
