#include "bench/fabric/fabric_bench.h"

#include "bench/fabric/idle_bench.h"
#include "bench/fabric/sim_bench.h"
#include "bench/harness/heap_counter.h"

namespace yonder::bench {
namespace {

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
  if (options.wants("sim")) YONDER_TRY_VOID(add_sim(options, report));
  if (options.fabric == "all") YONDER_TRY_VOID(add_counts(options, report));
  return {};
}

}  // namespace yonder::bench
