#pragma once
// `yonder bench rcached`: rcached against Debian's memcached, both as processes; and a cluster.
//
// The same closed loop on both (2 M keys, Zipf 0.99, 128-byte values, nine gets for each
// set, 4 server threads), in rounds that take turns.
//
// Ratios:
//   tput_vs_memcached            operations a second (more is better)
//   p99_vs_memcached             99th percentile of the latency (less is better)
//   bytes_per_item_vs_memcached  resident bytes per item beyond key and value (less is better)
//
// Then a cluster of four servers whose partitions move under load (rebalance_experiment.h).
//
// Parameters: experiment (memcached, rebalance, all), keys, connections, rounds, rcached
// (path of the program).
//
// Concurrency: the caller's thread.

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

// Errors: kInvalidArgument (no such experiment), kNotFound (no memcached in PATH, or no rcached beside the
// program).
Result<void> run_rcached_bench(const Options& options, Report& report);

}  // namespace yonder::bench
