#pragma once
// A load that never pauses, and what it felt: how many operations per second, and the
// longest time without one.
//
// Concurrency: one thread. Lifetime: values.

#include <algorithm>
#include <cstdint>

#include "yonder/base/time.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {

struct LoadResult {
  std::uint64_t operations = 0;
  Duration took{0};
  Duration longest_gap{0};  // Between the ends of two operations.

  double per_second() const {
    return static_cast<double>(operations) / std::max(std::chrono::duration<double>(took).count(), 1e-9);
  }
  double longest_gap_ms() const { return std::chrono::duration<double, std::milli>(longest_gap).count(); }
};

// Calls `operation()` until `ends(now)` says so; at least once.
template <typename Operation, typename Ends>
LoadResult run_load(Operation&& operation, Ends&& ends) {
  LoadResult out;
  const Instant start = os::SteadyClock::read();
  Instant last = start;
  do {
    operation();
    ++out.operations;
    const Instant now = os::SteadyClock::read();
    out.longest_gap = std::max(out.longest_gap, now - last);
    last = now;
  } while (!ends(last));
  out.took = last - start;
  return out;
}

}  // namespace yonder::bench
