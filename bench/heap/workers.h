#pragma once
// Threads of a workload, and the times of its requests.
//
// Concurrency: on_threads() blocks until all have ended.

#include <thread>
#include <vector>

#include "bench/heap/workload.h"
#include "yonder/base/time.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench::heap {

// Calls body(t) for t = 0 … threads - 1, each in its own thread.
template <typename Body>
void on_threads(unsigned threads, Body body) {
  std::vector<std::jthread> running;
  for (unsigned t = 0; t < threads; ++t) running.emplace_back([&body, t] { body(t); });
}

inline double seconds_since(Instant begin) {
  return static_cast<double>((os::SteadyClock::read() - begin).count()) * 1e-9;
}

// When the requests of one thread are due. In an open loop a late request counts from when it
// was due, so that a stall is charged to all who had to wait for it.
class Schedule {
 public:
  explicit Schedule(const Work& work)
      : interval_ns_(work.requests_per_s == 0 ? 0 : 1e9 * work.threads / work.requests_per_s),
        begin_(os::SteadyClock::read()) {}

  // Waits for the next request's time, and returns it.
  Instant next() {
    if (interval_ns_ == 0) return os::SteadyClock::read();
    const auto ahead = static_cast<std::int64_t>(interval_ns_ * static_cast<double>(count_++));
    const Instant due = begin_ + Duration(ahead);
    // A sleep can be late by more than a request takes; so the last stretch is spun.
    while (os::SteadyClock::read() < due) {
      if (due - os::SteadyClock::read() > std::chrono::microseconds(200))
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return due;
  }

  static std::uint64_t elapsed_ns(Instant due) {
    return static_cast<std::uint64_t>((os::SteadyClock::read() - due).count());
  }

 private:
  double interval_ns_;
  Instant begin_;
  std::uint64_t count_ = 0;
};

}  // namespace yonder::bench::heap
