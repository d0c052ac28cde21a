#pragma once
// Measurements of the shm provider, each side by side with the raw limit.
//
// Reads: random offsets in a memfd that a foreign peer has registered, through
// post() and poll(), against a memcpy loop over the same offsets of the same
// memory. Dependent: each offset is computed from all lines just read, one request
// outstanding. Batches: so many independent requests per post().
//
// Messages: a request and its answer between two busy threads, against one cache
// line going back and forth between the same two.
//
// Concurrency: one measurement at a time. Lifetime: nothing is kept.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::bench {

struct ShmReadOptions {
  std::size_t memory_bytes = std::size_t{2} << 30;
  std::uint32_t size = 64;  // of one read; a multiple of 64
  std::uint32_t batch = 1;  // 1: dependent reads, one outstanding
  // Many short rounds: a disturbance spoils a few of them, and not the median.
  int rounds = 101;
  std::uint32_t reads_per_round = 4096;
  std::uint64_t seed = 1;
};

struct ShmReadResult {
  double ours_ns = 0;    // per read, median of the rounds
  double memcpy_ns = 0;  // per copy
  // Throughput of ours / of memcpy, per round.
  std::vector<double> ratios;
  double allocations_per_read = 0;  // -1 where they cannot be counted
};

// Errors: those of the fabric; kOutOfMemory if the memory cannot be had.
Result<ShmReadResult> measure_shm_reads(const ShmReadOptions& options);
// The same for several (size, batch) over one memory, which takes seconds to fill.
Result<std::vector<ShmReadResult>> measure_shm_reads(const std::vector<ShmReadOptions>& all);

struct ShmMessageOptions {
  std::uint32_t size = 32;
  int rounds = 41;
  std::uint32_t trips_per_round = 20'000;
  bool shared_receive_queue = false;  // at the server
};

struct ShmMessageResult {
  double ours_ns = 0;          // per round trip, median
  double line_ns = 0;          // per round trip of a bare cache line
  std::vector<double> ratios;  // time of ours / time of the line
};

Result<ShmMessageResult> measure_shm_messages(const ShmMessageOptions& options);

}  // namespace yonder::bench
