#include "yonder/fabric/tcp/internal/binding.h"

#include <sched.h>
#include <time.h>

#include "yonder/os/steady_clock.h"

namespace yonder::fabric::tcp {

void Binding::await_idle(Duration grace) const {
  constexpr timespec kPoll{.tv_sec = 0, .tv_nsec = 100'000};
  const Instant until = os::SteadyClock::read() + grace;
  while (!is_idle() && os::SteadyClock::read() < until) ::nanosleep(&kPoll, nullptr);
}

void Binding::kill() {
  state_.fetch_or(kDead | kRetired, std::memory_order_acq_rel);
  // Microseconds, unless the thread that touches was descheduled, and then
  // yielding lets it run.
  while ((state_.load(std::memory_order_acquire) & kTouches) != 0) ::sched_yield();
}

}  // namespace yonder::fabric::tcp
