#pragma once
// `yonder bench traces --trace FILE --threads T`: memory after compaction under the
// allocations of a real program (§4.4.3 of the CoRM paper), ours and every other
// strategy.
//
// Measured at the end of the trace, and ours also at the moment with the most unused
// memory (suffix _worst): the paper says "highest fragmentation" and not what that is.
//
// Concurrency: one benchmark at a time.

#include <span>

#include "bench/fragmentation/trace.h"
#include "bench/harness/benchmark.h"

namespace yonder::bench {

struct TracesCase {
  std::uint32_t threads = 8;
  std::uint64_t seed = 1;
};
Result<void> measure_trace(std::span<const TraceRecord> trace, const TracesCase& wanted, Report& report);

// Parameters: trace (a file; else a generated one), threads (1 to 64, else 8).
Result<void> run_traces_bench(const Options& options, Report& report);

}  // namespace yonder::bench
