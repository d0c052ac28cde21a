#pragma once
// `yonder bench compaction`: what readers feel while the memory they read is compacted
// (§4.3 of the CoRM paper: compaction and its latency).
//
// A node in this process, with a class of which most objects were freed, and one
// reader that never pauses, on another thread than the compactor: embedded (the heap
// itself), one-sided (a session's direct_read over shm), or by RPC. Its rate and its
// longest pause are taken before, while and after the class is compacted, and once
// more for as long as that took, without compaction: what the machine itself does.
//
// The compactor works as the node's housekeeper does: a slice, a pause, a slice.
//
// Concurrency: one benchmark at a time.

#include <cstdint>

#include "bench/harness/benchmark.h"
#include "yonder/base/time.h"
#include "yonder/node/server.h"

namespace yonder::bench {

enum class ReadPath : std::uint8_t { kEmbedded, kOneSided, kRpc };

struct CompactionCase {
  ReadPath path = ReadPath::kOneSided;
  std::uint64_t frames = 5794;  // of 4 KiB, as in the paper
  std::uint32_t object_bytes = 32;
  double freed = 0.75;
  Duration window = std::chrono::milliseconds(200);  // before, and after
  Duration pause = node::CompactionPolicy().pause;   // between two slices
  std::uint64_t seed = 1;
};

// What one round showed.
struct CompactionRound {
  double before_per_second = 0;
  double during_per_second = 0;
  double after_per_second = 0;
  double gap_ms_during = 0;
  double gap_ms_without = 0;
  double cpu_ms = 0;         // of the compacting thread, waking up after every pause
  double collection_us = 0;  // of it, collecting and planning
  double longest_slice_us = 0;
  double blocks_freed = 0;  // frames, the paper's blocks
  double failed_reads = 0;
};
Result<CompactionRound> measure_compaction(const CompactionCase& wanted);
// CPU milliseconds of compacting the same class in one go, with nobody reading.
Result<double> measure_compaction_cpu(const CompactionCase& wanted);

// Parameter: pause_us, between two slices. On the fabric "sim": remap_bench.h.
Result<void> run_compaction_bench(const Options& options, Report& report);

}  // namespace yonder::bench
