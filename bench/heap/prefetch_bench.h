#pragma once
// `yonder bench prefetch`: a sequential scan of objects of which a quarter is local, with and
// without reading ahead, against what the link can carry.
//
//   prefetch_vs_none   bytes a second with HeapOptions::read_ahead / without
//   scan_vs_link       with it / reads of 4 KiB, 64 under way, over the same kind of
//                      connection to the same kind of memory
//
// Those of tcp; over shm (with the rdma100g model) the keys begin with shm_.
//
//   --set bytes=B    how much is scanned; 1 GiB, or 64 MiB with --quick

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_prefetch_bench(const Options& options, Report& report);

}  // namespace yonder::bench
