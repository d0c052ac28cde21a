// rpc_bench [payload_bytes [rounds [calls]]]: the round trip of an rpc over shm,
// side by side with a bare cache line. One line per round, then the medians.
#include <fmt/format.h>

#include <cstdlib>

#include "bench/fabric/rpc_bench.h"

int main(int argc, char** argv) {
  yonder::bench::RpcBenchOptions options;
  const auto number = [&](int i, std::uint32_t otherwise) {
    return argc > i ? static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  options.payload_bytes = number(1, options.payload_bytes);
  options.rounds = number(2, options.rounds);
  options.calls = number(3, options.calls);
  const auto bench = yonder::bench::measure_rpc(options);
  if (!bench) {
    fmt::print(stderr, "rpc_bench: {}\n", bench.error().to_string());
    return 1;
  }
  for (const auto& round : bench->rounds) {
    fmt::print("line {:7.1f} ns  rpc {:7.1f} ns  ratio {:5.2f}  batched {:6.1f} ns per call\n", round.line_ns,
               round.rpc_ns, round.rpc_ns / round.line_ns, round.batched_ns);
  }
  fmt::print(
      "medians: line {:.1f} ns, rpc {:.1f} ns, ratio {:.2f}, batched {:.1f} ns, {:.4f} allocations per "
      "call\n",
      bench->line_ns, bench->rpc_ns, bench->ratio, bench->batched_ns, bench->allocations_per_call);
  fmt::print("idle: server {:.2f} % of a core, waiting client {:.2f} %\n", bench->idle_server_cpu * 100,
             bench->idle_client_cpu * 100);
  return 0;
}
