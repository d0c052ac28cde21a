#pragma once
// How much the verbs provider adds to a NIC's own latency: our reads of 64 bytes
// against perftest's ib_read_lat, on the same device, in turns.
//
// Like with like:
//   what            | ours                       | ib_read_lat
//   ----------------+----------------------------+-----------------------------
//   queue pair      | reliable, one read deep    | the same (its fixed depth)
//   memory          | registered, 64 B, unused   | the same
//   a sample        | from one post to the next, less the pause, on both sides
//   waiting         | busy polling               | busy polling
//   processors      | initiator and target pinned to one processor, the same for both
// Ours goes through everything the provider adds: keys, deadlines, rings,
// completions of the common kind.
//
// The pause. Soft-RoCE works in kernel threads that fall asleep after each read
// and cost microseconds to wake: in the guest a read takes 19 µs if it is posted
// within 0.3 µs of the last completion, 26 µs up to 1.5 µs later, and 35 µs from 2
// to 5 µs later, whoever posts it. Two initiators can only be compared at the same
// pause. With `pause` 0 both post as soon as they can; with a few microseconds
// both find the device as a program finds it that uses what it reads.
//
// Concurrency: one thread, pinned while it measures; ib_read_lat runs as two child
// processes. Lifetime: values.

#include <cstdint>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::bench {

struct VerbsLatencyOptions {
  std::string device;  // Empty: the first one that is up.
  std::uint32_t bytes = 64;
  std::uint32_t reads = 1000;  // of each round
  std::uint32_t rounds = 9;    // of both, in turns; who goes first alternates
  // From a completion to the next post; whole microseconds (ib_read_lat's unit).
  std::chrono::microseconds pause{0};
};

struct VerbsLatency {
  std::vector<double> ours_us;      // the median of each round
  std::vector<double> perftest_us;  // the same of ib_read_lat ("t_typical")
  std::vector<double> ratios;       // round by round

  // The median of our medians over the median of theirs: a round in which the
  // device changed its mood between the two halves moves it little.
  double ratio() const;
};

// Errors: kProviderUnavailable (no device), kNotFound (ib_read_lat, of the Debian
// package perftest, is missing or printed no figure), those of the fabric.
Result<VerbsLatency> measure_verbs_latency(const VerbsLatencyOptions& options);

}  // namespace yonder::bench
