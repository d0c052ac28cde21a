#pragma once
// How far the tcp provider is from bare sockets.
//
// Ours: an initiator that polls its queue, and a passive target in this process,
// served by its fabric's service thread. Baseline: the same two threads written
// by hand, non-blocking and busy, with messages of the same sizes (72 bytes to
// ask, 24 + length to answer), coalesced in the same way. Rounds of both
// alternate (harness/report.h), because absolute times of a shared machine mean
// nothing.
//
// Concurrency: one call at a time; needs two cores that are otherwise idle.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::bench {

struct TcpBenchOptions {
  // Many short rounds: each fits into a scheduler's time slice, so that the median
  // survives other programs.
  int rounds = 41;
  std::size_t operations = 300;        // Per round of the latency measurement.
  std::size_t throughput_factor = 20;  // As many more per round of throughput.
  std::uint32_t read_bytes = 64;
  std::uint32_t depth = 32;
  std::string address = "tcp://127.0.0.1:0";  // With ?tls=… the baseline stays plain.
};

struct TcpBenchResult {
  // Medians over the rounds.
  double ours_p50_ns = 0;
  double raw_p50_ns = 0;
  double ours_ops_per_s = 0;
  double raw_ops_per_s = 0;
  // Ours / raw of each round.
  std::vector<double> latency_ratios;     // Smaller is better.
  std::vector<double> throughput_ratios;  // Greater is better.
  // In the steady state, both sides together; -1 if this build cannot count.
  double allocations_per_operation = 0;
  // Share of one core that an idle target and an idle client use together.
  double idle_cpu_share = 0;
};

// Errors: whatever the fabric or the sockets report.
Result<TcpBenchResult> run_tcp_bench(const TcpBenchOptions& options);

}  // namespace yonder::bench
