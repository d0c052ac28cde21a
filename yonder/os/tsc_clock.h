#pragma once
// TscClock: the cheap clock for measuring, read from the processor's counter.
//
// A read costs about 15 ns here against 30 to 36 ns for SteadyClock, which shows
// when every operation of a batch is timed. The counter's rate is measured once,
// against CLOCK_MONOTONIC, and not corrected afterwards, so the two clocks drift
// apart by up to some tens of parts per million, and by more while the system's
// time is being adjusted. Use it for durations and trace stamps; give
// SteadyClock's instants to the kernel as deadlines.
//
// It uses the counter only if that is invariant (it neither stops nor changes
// rate) and the kernel itself trusts it as clock source, which implies that the
// cores agree; otherwise every read is one of SteadyClock.
//
// Concurrency: any thread; reads of one thread never go back, and reads of two
// threads that are ordered otherwise may be off by the few ns the instruction
// can be moved by the processor.
// Lifetime: a value.

#include <cstdint>

#include "yonder/base/time.h"

namespace yonder::os {

class TscClock final : public Clock {
 public:
  // Measures the rate for `calibration` (sleeping); 10 ms give it to about 10 ppm.
  explicit TscClock(Duration calibration = std::chrono::milliseconds(10));

  Instant now() const override;
  // False if this machine's counter cannot be trusted and now() is SteadyClock's.
  bool uses_tsc() const { return ns_per_tick_scaled_ != 0; }

 private:
  // A tick of 0.3 ns is then known to 2^-32 ns, that is to 0.001 ppm.
  static constexpr int kScaleBits = 32;

  std::uint64_t start_ticks_ = 0;
  Instant start_;
  std::uint64_t ns_per_tick_scaled_ = 0;  // ns per tick · 2^kScaleBits; 0: not used.
};

}  // namespace yonder::os
