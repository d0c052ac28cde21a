#pragma once
// What an rpc round trip over shared memory costs, against the least that two
// threads on two cores can do: bounce one cache line.
//
// Rounds of the two are interleaved, because the host moves the virtual cores and
// the bare line's time changes by a factor of five within minutes; only the ratio
// of neighbours means something.
//
// Concurrency: one thread calls; it is pinned to one core meanwhile, its partners
// to another. Lifetime: values.

#include <cstdint>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::bench {

struct RpcBenchOptions {
  std::uint32_t rounds = 15;
  std::uint32_t calls = 20'000;     // per round
  std::uint32_t payload_bytes = 8;  // echoed; 8, 16, 32 or 64
  bool other_fabric = true;         // client and server as foreign processes see each other
};

struct RpcRound {
  double line_ns = 0;     // bare cache line, there and back
  double rpc_ns = 0;      // a call with an inline echo handler
  double batched_ns = 0;  // per call, in batches of 32
};

struct RpcBench {
  std::vector<RpcRound> rounds;
  double line_ns = 0;  // medians of the rounds
  double rpc_ns = 0;
  double batched_ns = 0;
  double ratio = 0;                 // median of rpc_ns / line_ns of each round
  double allocations_per_call = 0;  // meaningful if HeapCounter::available()
  double idle_server_cpu = 0;       // share of a core, over half a second of silence
  double idle_client_cpu = 0;       // the same for a client that waits for an answer
};

// kUnsupported on a machine with one core; else errors of the fabric.
Result<RpcBench> measure_rpc(const RpcBenchOptions& options);

}  // namespace yonder::bench
