#pragma once
// `yonder bench offload`: DF and WS with their memory-heavy part on the memory node, against the same
// programs that fetch (paper 003, Figure 8).
//
//   offload_vs_fetch_df   operations a second with copies and shuffles of columns run on the
//                         node / on the hybrid far heap without offload
//   offload_vs_fetch_ws   the same for requests whose element is compressed and encrypted there
//   call_us               (result) one call of a function that does nothing, both processes idle
//
// Both sides have a quarter of the data local, four threads, and the same model of a link
// (rdma100g over shm). The client's process has one core and the node with its functions
// the other, in both cases: two machines, of which the node's has time to spare, as in the paper
// (18 cores are reserved there). Checksums must be equal.
//
//   --set bytes=B      of each working set; 256 MiB, or 32 MiB with --quick
//   --set local=P      percent that is local; 25
//   --set rounds=N     3, or 2 with --quick
//   --set programs=D   where yonder-offload is; beside this program

#include "bench/harness/benchmark.h"

namespace yonder::bench {

Result<void> run_offload_bench(const Options& options, Report& report);

}  // namespace yonder::bench
