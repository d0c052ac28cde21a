#pragma once
// How much the verbs provider adds to a NIC's own latency: our reads of 64 bytes
// against perftest's ib_read_lat, on the same device, in turns.
//
// Both busy-poll, both read from memory that nobody else uses, both report the
// median of a round. Ours goes through everything the provider adds: keys,
// deadlines, rings, completions of the common kind.
//
// Concurrency: one thread; ib_read_lat runs as two child processes. Lifetime: values.

#include <cstdint>
#include <string>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::bench {

struct VerbsLatencyOptions {
  std::string device;  // Empty: the first one that is up.
  std::uint32_t bytes = 64;
  std::uint32_t reads = 1000;  // of each round
  std::uint32_t rounds = 7;
};

struct VerbsLatency {
  std::vector<double> ours_us;      // the median of each round
  std::vector<double> perftest_us;  // the same of ib_read_lat ("t_typical")
  std::vector<double> ratios;       // round by round
};

// Errors: kProviderUnavailable (no device), kNotFound (ib_read_lat, of the Debian
// package perftest, is missing or printed no figure), those of the fabric.
Result<VerbsLatency> measure_verbs_latency(const VerbsLatencyOptions& options);

}  // namespace yonder::bench
