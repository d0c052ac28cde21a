#pragma once
// Time as the platform sees it: durations, instants of some clock, deadlines.
//
// An Instant counts nanoseconds of a Clock. Which clock is decided by whoever
// made the Clock: the machine's steady clock (os/steady_clock.h) or the virtual
// clock of a simulation. Instants of different clocks must not be mixed; that is
// why code takes its Clock through the constructor and never asks the machine.
//
// Concurrency: values; Clock::now() may be called from any thread.

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

namespace yonder {

using Duration = std::chrono::nanoseconds;

class Instant {
 public:
  constexpr Instant() = default;
  static constexpr Instant from_ns(std::int64_t ns) { return Instant(ns); }
  constexpr std::int64_t ns() const { return ns_; }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant a, Duration d) {
    return Instant(saturating_add(a.ns_, d.count()));
  }
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration(a.ns_ - b.ns_); }

 private:
  constexpr explicit Instant(std::int64_t ns) : ns_(ns) {}
  static constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return b > 0 ? std::numeric_limits<std::int64_t>::max() : 0;
    return sum;
  }
  std::int64_t ns_ = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
};

// The last instant at which an operation may still succeed. The default is no
// deadline of its own: the callee substitutes its configured default. Nothing in
// the platform waits for ever; never() exists for tests that must not time out.
class Deadline {
 public:
  constexpr Deadline() = default;
  static constexpr Deadline at(Instant instant) { return Deadline(instant.ns()); }
  static Deadline after(const Clock& clock, Duration duration) { return at(clock.now() + duration); }
  static constexpr Deadline never() { return Deadline(std::numeric_limits<std::int64_t>::max()); }

  constexpr bool is_default() const { return ns_ == 0; }
  constexpr Instant instant() const { return Instant::from_ns(ns_); }
  constexpr bool passed(Instant now) const { return ns_ != 0 && now.ns() >= ns_; }
  constexpr Deadline or_default(Deadline other) const { return is_default() ? other : *this; }
  // Whichever comes first; a default one never does.
  static constexpr Deadline earlier(Deadline a, Deadline b) {
    if (a.is_default() || b.is_default()) return a.or_default(b);
    return a.ns_ < b.ns_ ? a : b;
  }

  friend constexpr bool operator==(Deadline, Deadline) = default;

 private:
  constexpr explicit Deadline(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

}  // namespace yonder
