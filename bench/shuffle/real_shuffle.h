#pragma once
// The shuffle between two executors of this machine, each with a thread, over a real
// provider.
//
// Concurrency: starts a thread per executor. Lifetime: values.

#include <cstdint>
#include <string_view>

#include "yonder/base/result.h"
#include "yonder/structures/shuffle.h"

namespace yonder::bench {

struct RealShuffleOptions {
  std::string_view provider = "shm";  // or "tcp"
  std::uint32_t executors = 2;
  std::uint64_t entries = 200'000;  // of each executor
  std::uint32_t entry_bytes = 64;
  structures::ShuffleStrategy strategy = structures::ShuffleStrategy::kPack;
  std::uint32_t batch_entries = 16;
};

// Million entries a second, all executors together, from the first entry to the end of
// the last stream.
Result<double> measure_real_shuffle(const RealShuffleOptions& options);

}  // namespace yonder::bench
