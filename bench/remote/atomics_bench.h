#pragma once
// `yonder bench atomics`: locks and sequencers by remote atomics, by requests, and by a
// local lock (paper 002, figure 10).
//
// The local lock is a number, not a run: a simulation has no cache lines to fight over.
// Figure 10 says what a contended compare-and-swap lock does on that CPU: 0.33 million a
// second with eight threads, and 1.2 % of one thread's rate with fourteen. A hand-over
// that costs the same for each further thread that spins on the line fits both:
//   time(t) = 67 ns + (t - 1) × 424 ns
// (8 threads: 3.03 µs; 14: 5.58 µs, which is 1 / 1.2 % of 67 ns.)

#include "bench/harness/benchmark.h"

namespace yonder::bench {

// Millions of lock and unlock pairs a second by the formula above.
double local_lock_mops(std::uint32_t threads);

Result<void> run_atomics_bench(const Options& options, Report& report);

}  // namespace yonder::bench
