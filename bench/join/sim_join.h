#pragma once
// The join on the simulated cluster of paper 002 (section IV-D, figures 16 and 17), and
// the single machine it is compared with.
//
// What computing costs. The paper's standalone join of 16 M × 16 M tuples takes 6.46 s on
// one executor: 404 ns for building with one tuple and probing with one. We take 240 ns of
// it for the build (an insertion writes a node, allocates it and takes a lock) and 164 ns
// for the probe; only the sum matters for the ratios. Partitioning costs what it costs in
// the shuffle's benchmark (sim_shuffle.h). The single machine pays the same for build and
// probe and nothing for partitioning, and has as many executors as each machine of the
// cluster: two, one per socket, which share one map without any loss.
//
// The rows are fewer than 16 M, because the simulator moves each of them; costs per row
// are those of 16 M, so the ratios are those of the large join but for its start and end.
//
// Concurrency: one thread. Lifetime: values.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/structures/shuffle.h"

namespace yonder::bench {

inline constexpr Duration kBuildTime = std::chrono::nanoseconds(240);
inline constexpr Duration kProbeTime = std::chrono::nanoseconds(164);
inline constexpr std::uint32_t kExecutorsPerMachine = 2;

struct SimJoinOptions {
  std::uint64_t seed = 1;
  std::uint32_t executors = 16;
  std::uint64_t rows = 320'000;  // of each relation
  structures::ShuffleStrategy strategy = structures::ShuffleStrategy::kGather;
  std::uint32_t batch_entries = 16;
  bool numa_aware = true;
  double theta = 0;        // above 0: Zipf's exponent of the probe keys
  bool heavy_keys = true;  // whether they are looked for
};

// Seconds of virtual time. kCorrupt if the result has not exactly one row per probe row.
Result<double> measure_sim_join(const SimJoinOptions& options);
// Of a single machine with `executors` threads, by the same costs.
double single_machine_seconds(std::uint64_t rows, std::uint32_t executors = kExecutorsPerMachine);

}  // namespace yonder::bench
