#pragma once
// `yonder bench prefetch`: a sequential scan of objects of which a quarter is local, with and
// without reading ahead, against what the link can carry.
//
//   PROVIDER_prefetch_vs_none   bytes a second with HeapOptions::read_ahead / without
//   PROVIDER_scan_vs_link       with it / reads of 4 KiB, 16 under way, over the same kind of
//                               connection to the same kind of memory
//
// Without a prefix: those of tcp, which the project's goal speaks of.
//
//   --set bytes=B    how much is scanned; 256 MiB, or 64 MiB with --quick

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_prefetch_bench(const Options& options, Report& report);

}  // namespace yonder::bench
