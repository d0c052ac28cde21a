#pragma once
// The shuffle on the simulated cluster of paper 002 (section IV-C, figure 15): executors
// that send to each other, each as fast as it can.
//
// What computing costs, per entry, in virtual time: kPartitionTime at the sender (make or
// fetch the entry, hash its key, choose its batch) and kConsumeTime at the receiver (look
// at it once). Copies are charged by the shuffle itself, posting and polling by the
// simulator. At the paper's 2.0 GHz these are 40 and 20 cycles. They are assumed, of
// the size of a short loop over entries; no figure of the paper was fitted with them.
//
// Concurrency: one thread. Lifetime: values.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/structures/shuffle.h"

namespace yonder::bench {

inline constexpr Duration kPartitionTime = std::chrono::nanoseconds(20);
inline constexpr Duration kConsumeTime = std::chrono::nanoseconds(10);

struct SimShuffleOptions {
  std::uint64_t seed = 1;
  std::uint32_t executors = 16;
  std::uint64_t entries = 20'000;  // of each executor
  std::uint32_t entry_bytes = 64;  // a key of 8 and a value
  structures::ShuffleStrategy strategy = structures::ShuffleStrategy::kPack;
  std::uint32_t batch_entries = 16;
  bool numa_aware = true;
};

// Million entries a second of virtual time, all executors together. kCorrupt if not
// every entry arrived.
Result<double> measure_sim_shuffle(const SimShuffleOptions& options);

}  // namespace yonder::bench
