#pragma once
// How long to look away after a try that failed: twice as long each time, up to a
// bound, and a random part of it, so that those who collided do not meet again.
//
//   Backoff backoff(options, random);
//   while (!co_await try_it()) co_await scheduler.sleep_for(backoff.next());
//
// Concurrency: one thread. Lifetime: borrows its random numbers.

#include <algorithm>
#include <cstdint>

#include "yonder/base/prng.h"
#include "yonder/base/time.h"

namespace yonder::remote {

struct BackoffOptions {
  // The first pause; 0: never pause (every try follows the last at once). About a
  // round trip: less makes tries that cannot have succeeded.
  Duration first = std::chrono::microseconds(2);
  Duration longest = std::chrono::microseconds(128);
};

class Backoff {
 public:
  Backoff(const BackoffOptions& options, Prng& random)
      : longest_(options.longest), next_(options.first), random_(random) {}

  // Between a half and the whole of the current bound, which then doubles.
  Duration next() {
    const Duration bound = std::min(next_, longest_);
    next_ = std::min(bound * 2, longest_);
    const std::int64_t half = bound.count() / 2;
    return Duration(half + static_cast<std::int64_t>(
                               random_.below(static_cast<std::uint64_t>(bound.count() - half) + 1)));
  }

 private:
  const Duration longest_;
  Duration next_;
  Prng& random_;
};

}  // namespace yonder::remote
