#pragma once
// How long to sleep before the next look at memory that somebody else changes: short
// at first, doubling up to a bound, so that what comes soon is seen soon and what
// does not costs no core.
//
// Concurrency and lifetime: a value of one task.

#include <algorithm>

#include "yonder/base/time.h"

namespace yonder::structures::internal {

class Pause {
 public:
  explicit Pause(Duration longest) : longest_(longest) {}

  Duration next() {
    const Duration now = next_;
    next_ = std::min(next_ * 2, longest_);
    return now;
  }
  void reset() { next_ = kShortest; }

 private:
  // Below a round trip of any network: a first look that comes too early costs little.
  static constexpr Duration kShortest = std::chrono::microseconds(1);

  Duration longest_;
  Duration next_ = kShortest;
};

}  // namespace yonder::structures::internal
