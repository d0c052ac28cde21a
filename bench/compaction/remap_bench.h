#pragma once
// `yonder bench compaction --fabric sim`: how readers' NICs follow blocks that are
// remapped (CoRM, figure 8): with on-demand paging and prefetch, with on-demand paging, by
// re-registration, and, for comparison, not at all (the block table).
//
// A simulated cluster of NICs of the ConnectX-5 class; all times are virtual, and equal
// for equal seeds. Two parts:
//   quiet   one reader; after each switch, how long the node took to tell its NIC, and
//           how long the first and the second read of an object of that block take
//   load    readers that never pause, before and while blocks are switched
// The remapping itself (mmap) takes no virtual time: it is the same for all.
//
// Concurrency: one benchmark at a time.

#include <cstdint>

#include "bench/harness/benchmark.h"
#include "yonder/node/heap.h"
#include "yonder/node/nic_mapping.h"

namespace yonder::bench {

struct RemapCase {
  node::Remap remap = node::Remap::kMmap;
  node::NicMapping mapping = node::NicMapping::kOdpPrefetch;
  std::uint64_t frames = 400;  // of 4 KiB
  std::uint32_t object_bytes = 240;
  double freed = 0.75;
  std::uint32_t clients = 8;
  Duration before = std::chrono::milliseconds(5);
  Duration pause = std::chrono::microseconds(50);  // between two switches
  std::uint64_t seed = 1;
};

struct RemapRound {
  // Quiet, medians over all switches.
  double tell_us = 0;  // from the switch to the NIC's knowing of it
  double first_read_us = 0;
  double next_read_us = 0;
  // Load.
  double before_per_second = 0;
  double during_per_second = 0;
  double p50_us_before = 0;
  double p50_us_during = 0;
  double p99_us_before = 0;
  double p99_us_during = 0;
  double max_us_during = 0;
  double switches = 0;
  double connections_broken = 0;
  double failed_reads = 0;
};
Result<RemapRound> measure_remap(const RemapCase& wanted);

// Keys: docs/performance.md, "Remapping".
Result<void> run_remap_bench(const Options& options, Report& report);

}  // namespace yonder::bench
