#pragma once
// A hash table and its front ends on the simulated cluster of paper 002.
//
// Concurrency: the caller's thread. Lifetime: values.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::bench {

struct SimTableOptions {
  std::uint64_t seed = 1;
  std::uint32_t front_ends = 7;
  std::uint32_t requests = 4;  // under way at each
  std::uint64_t keys = 20'000;
  std::uint32_t value_bytes = 64;
  bool numa_aware = true;
  bool consolidate = true;
  Duration write_back = std::chrono::milliseconds(2);  // The paper's burst buffer; 0: without.
  // Until front ends know their hot buckets, which the paper's are told.
  Duration warm_up = std::chrono::milliseconds(50);
  Duration duration = std::chrono::milliseconds(10);
};

// Million changes a second of virtual time that reach remote memory.
Result<double> measure_sim_table(const SimTableOptions& options);

}  // namespace yonder::bench
