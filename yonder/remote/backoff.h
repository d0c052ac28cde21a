#pragma once
// How long to look away after a try that failed: twice as long each time, up to a
// bound, and a random part of it, so that those who collided do not meet again.
//
//   Backoff backoff(options, random);
//   while (!tried) co_await scheduler.sleep_for(backoff.next());
//
// What is held for long is looked at seldom. What changes hands all the time is worth
// another look soon, however many wait: then `lively` bounds the pause.
//
// Concurrency: one thread. Lifetime: borrows its random numbers.

#include <algorithm>
#include <cstdint>

#include "yonder/base/prng.h"
#include "yonder/base/time.h"

namespace yonder::remote {

// A lock whose critical sections are empty changes hands every 3 µs on a NIC of paper
// 002, and fastest if three or four of those who wait have a try under way. With four
// tries in a row of 2 µs each and pauses of 32 to 64 µs, a dozen or two of them do.
struct BackoffOptions {
  // Tries in a row before a pause. One that follows at once expects what the last one
  // saw, and can succeed; one that comes later mostly learns that it was wrong.
  std::uint32_t in_row = 4;
  Duration first = std::chrono::microseconds(32);  // pause; 0: never pause
  Duration lively = std::chrono::microseconds(64);
  Duration longest = std::chrono::microseconds(256);
};

class Backoff {
 public:
  Backoff(const BackoffOptions& options, Prng& random)
      : lively_(std::min(options.lively, options.longest)),
        longest_(options.longest),
        in_row_(options.in_row),
        pause_free_(options.first.count() == 0),
        next_(options.first),
        random_(random) {}

  // Somebody came or went since the last try.
  void saw_change() { next_ = std::min(next_, lively_); }

  // Whether to pause now; counts the tries.
  bool wants_pause() {
    if (pause_free_ || ++tries_ < in_row_) return false;
    tries_ = 0;
    return true;
  }

  // Between a half and the whole of the current bound, which then doubles.
  Duration next() {
    const Duration bound = std::min(next_, longest_);
    next_ = std::min(bound * 2, longest_);
    const std::int64_t half = bound.count() / 2;
    return Duration(half + static_cast<std::int64_t>(
                               random_.below(static_cast<std::uint64_t>(bound.count() - half) + 1)));
  }

 private:
  const Duration lively_;
  const Duration longest_;
  const std::uint32_t in_row_;
  const bool pause_free_;
  std::uint32_t tries_ = 0;
  Duration next_;
  Prng& random_;
};

}  // namespace yonder::remote
