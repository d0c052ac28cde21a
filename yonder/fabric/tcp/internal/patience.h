#pragma once
// Patience: how long a thread that serves looks for more before it sleeps.
//
// Looking saves the next request a wake-up, 20 us and more, if the core has nothing else to do.
// If somebody else wants the core, a thread that looks takes half of it for nothing, and in the
// end loses it for a whole slice, some milliseconds, in which no request is served. So a
// thread that finds that its core was taken away while it only looked does without for a while.
// It is then woken for each request; os::prefer_short_slices() makes that quick.
//
//   round         | core is ours                     | core is wanted by others
//   --------------+----------------------------------+-------------------------
//   found work    | go on                            | go on
//   found nothing | look on for kSpin, kRounds times | sleep at once
//
// Concurrency: one thread. Lifetime: a value.

#include <chrono>

#include "yonder/base/time.h"

namespace yonder::fabric::tcp {

class Patience {
 public:
  static constexpr Duration kSpin = std::chrono::microseconds(50);
  // At least so many looks: time that passed while another thread had our core was not spent
  // waiting.
  static constexpr int kRounds = 100;
  // A look takes less than a microsecond, a slice of another thread most of a millisecond.
  static constexpr Duration kTaken = std::chrono::microseconds(200);
  // How long it does without. Finding out again costs one slice: 3 ms of these, or 1 %.
  static constexpr Duration kCalm = std::chrono::milliseconds(300);

  // After a round that began at `began`. True: it is time to sleep.
  bool is_over(Instant began, bool worked) {
    const bool only_looked = idle_rounds_ > 0;
    if (only_looked && began - last_round_ > kTaken) wanted_until_ = began + kCalm;
    last_round_ = began;
    if (worked) {
      wake(began);
      return false;
    }
    ++idle_rounds_;
    if (began < wanted_until_) return true;
    return idle_rounds_ >= kRounds && began - last_work_ > kSpin;
  }
  // It has slept, or found work.
  void wake(Instant now) {
    last_work_ = now;
    idle_rounds_ = 0;
  }

 private:
  Instant last_work_;
  Instant last_round_;
  Instant wanted_until_;
  int idle_rounds_ = 0;
};

}  // namespace yonder::fabric::tcp
