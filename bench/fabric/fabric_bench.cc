#include "bench/fabric/fabric_bench.h"

#include <fmt/format.h>

#include "bench/fabric/idle_bench.h"
#include "bench/fabric/rpc_bench.h"
#include "bench/fabric/shm_bench.h"
#include "bench/fabric/sim_bench.h"
#include "bench/fabric/tcp_bench.h"
#include "bench/fabric/verbs_bench.h"
#include "bench/fabric/verbs_guest.h"
#include "bench/harness/heap_counter.h"

namespace yonder::bench {
namespace {

Result<void> add_shm_reads(const Options& options, Report& report) {
  std::vector<ShmReadOptions> wanted;
  for (const std::uint32_t batch : {1u, 16u}) {
    for (const std::uint32_t size : {64u, 1024u, 4096u}) {
      wanted.push_back(
          {.size = size, .batch = batch, .rounds = options.quick ? 15 : 41, .seed = options.seed});
    }
  }
  YONDER_TRY(results, measure_shm_reads(wanted));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string kind = wanted[i].batch == 1 ? "shm_read" : "shm_read_batch16";
    report.ratio(fmt::format("{}_vs_memcpy_{}", kind, wanted[i].size), results[i].ratios);
    report.result(fmt::format("{}_ns_{}", kind, wanted[i].size), results[i].ours_ns);
    report.result(fmt::format("{}_memcpy_ns_{}", kind, wanted[i].size), results[i].memcpy_ns);
  }
  return {};
}

// `suffix` tells the payload; without one it is the 8 bytes that the bare line moves.
Result<void> add_rpc(const Options& options, Report& report, std::uint32_t payload_bytes,
                     const std::string& suffix) {
  YONDER_TRY(rpc, measure_rpc({.rounds = options.quick ? 15u : 41u, .payload_bytes = payload_bytes}));
  std::vector<double> ratios;
  for (const RpcRound& round : rpc.rounds) ratios.push_back(round.rpc_ns / round.line_ns);
  report.ratio("shm_rpc_rtt_vs_pingpong" + suffix, ratios);
  report.result("shm_rpc_rtt_ns" + suffix, rpc.rpc_ns);
  report.result("shm_rpc_batched_ns" + suffix, rpc.batched_ns);
  report.result("pingpong_ns" + suffix, rpc.line_ns);
  report.result("rpc_heap_allocs_per_call" + suffix, rpc.allocations_per_call);
  return {};
}

Result<void> add_tcp(const Options& options, Report& report) {
  YONDER_TRY(tcp, run_tcp_bench({.rounds = options.quick ? 9 : 25}));
  report.ratio("tcp_read_p50_vs_socket_64", tcp.latency_ratios);
  report.ratio("tcp_read_tput_vs_socket_64_d32", tcp.throughput_ratios);
  report.result("tcp_read_p50_ns_64", tcp.ours_p50_ns);
  report.result("socket_p50_ns_64", tcp.raw_p50_ns);
  report.result("tcp_read_ops_per_s_64_d32", tcp.ours_ops_per_s);
  report.result("socket_ops_per_s_64_d32", tcp.raw_ops_per_s);
  return {};
}

// `suffix` tells the pause between two reads; see verbs_bench.h.
Result<void> add_verbs_latency(const Options& options, Report& report, std::chrono::microseconds pause,
                               const std::string& suffix) {
  YONDER_TRY(latency, measure_verbs_latency({.rounds = options.quick ? 7u : 15u, .pause = pause}));
  const double spread = (quantile(latency.ratios, 0.75) - quantile(latency.ratios, 0.25)) / latency.ratio();
  report.ratio("verbs_read_lat_vs_perftest_64" + suffix, latency.ratio(), spread);
  report.result("verbs_read_us_64" + suffix, median(latency.ours_us));
  report.result("perftest_read_us_64" + suffix, median(latency.perftest_us));
  return {};
}

Result<void> add_verbs(const Options& options, Report& report) {
  const auto added = add_verbs_latency(options, report, std::chrono::microseconds(0), "");
  if (!added && added.error() == ErrorCode::kProviderUnavailable && options.fabric == "all") {
    const auto from_guest = add_verbs_from_guest(options, report);
    // A machine without QEMU still has the other figures; the report says so.
    if (!from_guest)
      report.param("verbs_device", fmt::format("not measured: {}", from_guest.error().to_string()));
    return {};
  }
  if (!added) return added;
  return add_verbs_latency(options, report, std::chrono::microseconds(3), "_pause3us");
}

Result<void> add_sim(const Options& options, Report& report) {
  YONDER_TRY(sim,
             measure_sim_speed({.seed = options.seed, .operations = options.quick ? 500'000u : 2'000'000u}));
  report.result("sim_ops_per_cpu_second", sim.operations_per_cpu_second);
  report.result("sim_events_per_operation", sim.events_per_operation);
  report.result("sim_heap_allocs_per_op", sim.allocations_per_operation);
  return {};
}

Result<void> add_counts(const Options& options, Report& report) {
  YONDER_TRY(idle, measure_idle(options.program, options.quick ? 2 : 5));
  report.result("idle_cpu_percent_target", idle.target_cpu_percent);
  report.result("idle_cpu_percent_client", idle.client_cpu_percent);
  if (HeapCounter::available()) {
    YONDER_TRY(allocations, measure_heap_allocations(options.program, 10'000));
    report.result("heap_allocs_per_op", allocations);
  }
  return {};
}

}  // namespace

Result<void> run_fabric_bench(const Options& options, Report& report) {
  report.set_fabric(options.fabric);
  report.param("seed", static_cast<double>(options.seed));
  report.param("quick", options.quick ? "yes" : "no");
  // Only the speed of the simulator itself is measured, in real time.
  report.set_simulated(false);
  if (options.wants("shm")) {
    YONDER_TRY_VOID(add_shm_reads(options, report));
    YONDER_TRY_VOID(add_rpc(options, report, 8, ""));
    YONDER_TRY_VOID(add_rpc(options, report, 32, "_32"));
    YONDER_TRY_VOID(add_rpc(options, report, 64, "_64"));
  }
  if (options.wants("tcp")) YONDER_TRY_VOID(add_tcp(options, report));
  if (options.wants("verbs")) YONDER_TRY_VOID(add_verbs(options, report));
  if (options.wants("sim")) YONDER_TRY_VOID(add_sim(options, report));
  if (options.fabric == "all") YONDER_TRY_VOID(add_counts(options, report));
  return {};
}

}  // namespace yonder::bench
