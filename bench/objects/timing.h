#pragma once
// What the benchmarks of the object API measure with.
//
// Concurrency: any thread.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {

inline double wall_seconds() { return static_cast<double>(os::SteadyClock::read().ns()) * 1e-9; }

// Operations per second of `count` calls; `seconds` is the clock to measure with.
template <typename Seconds, typename Call>
double rate(std::uint64_t count, Seconds&& seconds, Call&& call) {
  const double start = seconds();
  for (std::uint64_t i = 0; i < count; ++i) call(i);
  return static_cast<double>(count) / (seconds() - start);
}

inline Result<void> failed_if(bool failed) {
  if (failed) return fail(ErrorCode::kCorrupt, "an operation of the benchmark failed");
  return {};
}

}  // namespace yonder::bench
