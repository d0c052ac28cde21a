#pragma once
// What the object heap costs inside one process, against the raw limit of each
// figure: memcpy for reads, jemalloc for allocation, live slots for memory.
//
// Every function measures side by side, in alternating rounds, and adds its
// results and ratios to the report. The sizes are parameters, so that a smoke test
// runs the same code in a second.
//
// Concurrency: one benchmark at a time; each starts no threads of its own.

#include <cstdint>

#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

struct HeapReadOptions {
  std::uint32_t object_bytes = 64;
  std::uint64_t heap_bytes = std::uint64_t{1} << 30;
  std::uint64_t reads = 1'000'000;  // per round
  int rounds = 9;
  std::uint64_t seed = 1;
};
// Reads of random objects, each naming the next: one outstanding. The ratio is
// throughput against memcpy of the same addresses in the same order.
Result<void> measure_heap_reads(const HeapReadOptions& options, Report& report);

struct HeapAllocOptions {
  std::uint32_t object_bytes = 64;
  std::uint64_t pairs = 1'000'000;  // per round
  // Objects that exist meanwhile: the oldest is freed and a new one made. 0: none,
  // every object is freed as soon as it is made.
  std::uint32_t live = 1000;
  int rounds = 9;
};
// An alloc and a free, in turns with jemalloc's malloc and free. The ratio is time
// against jemalloc; without the library there is no ratio.
Result<void> measure_heap_alloc(const HeapAllocOptions& options, Report& report);

struct HeapMergeOptions {
  std::uint64_t frames = 5794;
  std::uint32_t frame_bytes = 4096;
  std::uint32_t object_bytes = 32;
  double freed = 0.75;
  int rounds = 5;
  std::uint64_t seed = 1;
};
// CPU time of compacting so many frames, and its longest slice.
Result<void> measure_heap_merge(const HeapMergeOptions& options, Report& report);

struct HeapPackOptions {
  std::uint32_t object_bytes = 32;
  std::uint64_t objects = 200'000;
  double freed = 0.4;
  std::uint64_t seed = 1;
};
// Active bytes after compaction against the frames that the live objects fill.
Result<void> measure_heap_packing(const HeapPackOptions& options, Report& report);

struct HeapOverheadOptions {
  std::uint32_t object_bytes = 32;
  std::uint64_t objects = 500'000;
};
// The bytes that an object of a full heap costs beyond its payload and the rounding
// of its class: header, unusable tails, and all that the node keeps beside the frames.
Result<void> measure_heap_overhead(const HeapOverheadOptions& options, Report& report);

struct KeeperOptions {
  std::uint64_t heap_bytes = std::uint64_t{1} << 30;  // that are adopted
  std::uint64_t operations = 200'000;                 // per round
  int rounds = 5;
};
// A heap whose memory a keeper holds: an alloc and a free, and a write, which goes through
// the journal, in time against the same without a keeper; and how long it takes to adopt
// a heap of 64-byte and of 2 KiB objects, per GiB of frames.
Result<void> measure_keeper(const KeeperOptions& options, Report& report);

}  // namespace yonder::bench
