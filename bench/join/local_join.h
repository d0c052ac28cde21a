#pragma once
// The yardstick of the join: one process, oneTBB's concurrent hash map, `threads` threads
// that build it from one array and look up the rows of the other. No partitioning, no
// network, keys and values of 8 bytes, build keys that occur once: what somebody would
// write for exactly this case. The map is made large enough at once.
//
// Concurrency: starts its threads. Lifetime: values.

#include <cstdint>
#include <span>

namespace yonder::bench {

struct Tuple {
  std::uint64_t key;
  std::uint64_t value;
};

struct LocalJoin {
  double seconds = 0;
  std::uint64_t results = 0;
  std::uint64_t checksum = 0;  // sum over the results of key + both values
};

LocalJoin run_local_join(std::span<const Tuple> build, std::span<const Tuple> probe, std::uint32_t threads);

}  // namespace yonder::bench
