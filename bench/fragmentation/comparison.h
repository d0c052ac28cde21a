#pragma once
// The strategies side by side with our heap, over the same allocations and frees.
//
// Each strategy is replayed in two geometries: with our size classes, frames and
// headers, so that only the way of compacting differs, and as the paper has it, with
// blocks of 1 MiB, four sizes per doubling and no headers. Ratios against the
// former are what we claim; those against the latter have the suffix _1mib.
//
// Concurrency: one thread. Lifetime: values.

#include <cstdint>
#include <string>

#include "bench/fragmentation/heap_replay.h"
#include "bench/fragmentation/strategies.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

class Comparison {
 public:
  struct Options {
    std::uint32_t threads = 1;
    std::uint64_t seed = 1;
    // Slot sizes of the 1 MiB geometry.
    std::vector<std::uint32_t> paper_classes = geometric_classes(4, 1 << 20);
  };
  static Result<Comparison> create(const Options& options);

  Result<void> allocate(std::uint32_t object, std::uint32_t bytes);
  Result<void> free(std::uint32_t object);
  // Memory that nothing live uses, in our geometry without compaction.
  std::uint64_t unused_bytes() const { return same_.used_bytes() - same_.live_bytes(); }

  // Compacts ours and adds ratios `active_vs_…` and results `active_bytes_…`, each
  // key with the suffix. Call it once, last.
  void report(const std::string& suffix, Report& report);

 private:
  Comparison(HeapReplay ours, PaperAllocator same, PaperAllocator paper)
      : ours_(std::move(ours)), same_(std::move(same)), paper_(std::move(paper)) {}

  HeapReplay ours_;
  PaperAllocator same_;
  PaperAllocator paper_;
};

}  // namespace yonder::bench
