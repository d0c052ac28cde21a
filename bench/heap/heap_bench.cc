#include "bench/heap/heap_bench.h"

#include <string>
#include <vector>

#include "bench/heap/latency.h"
#include "bench/heap/settings.h"
#include "bench/heap/swap_bench.h"
#include "bench/heap/sweep.h"

namespace yonder::bench {
namespace {

using heap::Settings;

Result<void> measure_provider(const Settings& settings, const std::string& provider,
                              const std::string& prefix, Report& report) {
  if (settings.sweep) {
    heap::Sweep sweep({.workloads = settings.workloads,
                       .locals = settings.locals,
                       .work = settings.work,
                       .rounds = settings.rounds,
                       .faults = settings.faults,
                       .provider = provider,
                       .prefix = prefix},
                      report);
    YONDER_TRY_VOID(sweep.run());
  }
  if (!settings.latency) return {};
  return heap::measure_latency({.workloads = settings.workloads,
                                .work = settings.work,
                                .rounds = settings.rounds,
                                .provider = provider,
                                .prefix = prefix},
                               report);
}

}  // namespace

Result<void> run_heap_bench(const Options& options, Report& report) {
  YONDER_TRY(settings, Settings::read(options));
  settings.describe(report);
  Options chosen = options;
  // Both would take twice a minute.
  if (options.quick && options.fabric == "all") chosen.fabric = "shm";
  YONDER_TRY_VOID(for_providers(chosen, report, {"shm", "tcp"}, [&](const std::string& provider) {
    return measure_provider(settings, provider, key_prefix(chosen, provider), report);
  }));
  if (!settings.swap) return {};
  return heap::measure_swap(
      {.workloads = settings.workloads, .work = settings.work, .rounds = settings.rounds}, report);
}

}  // namespace yonder::bench
