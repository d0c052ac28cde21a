#include "bench/heap/barrier_bench.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "bench/heap/dereference.h"
#include "bench/heap/settings.h"
#include "bench/heap/sweep.h"
#include "yonder/heap/slot_store.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/tsc_clock.h"

namespace yonder::bench {
namespace {

using heap::MemoryKind;
using heap::RunResult;
using heap::Settings;
using heap::Workload;

struct Pattern {
  const char* name;
  std::uint64_t bytes;  // Of objects; 0: all that was asked for.
  bool dependent;
};
constexpr std::array kPatterns = {Pattern{"hot_dependent", 16 << 10, true},
                                  Pattern{"random_independent", 0, false},
                                  Pattern{"random_dependent", 0, true}};
constexpr std::uint64_t kObjectBytes = 16;

Result<void> measure_patterns(const Settings& settings, Report& report) {
  for (const Pattern& pattern : kPatterns) {
    YONDER_TRY(times,
               heap::measure_dereferences(
                   {.objects = (pattern.bytes == 0 ? settings.work.bytes : pattern.bytes) / kObjectBytes,
                    .steps = settings.rounds == 1 ? 500'000u : 4'000'000u,
                    .dependent = pattern.dependent,
                    .rounds = 15,
                    .seed = settings.work.seed}));
    std::vector<double> over;
    for (std::size_t i = 0; i < times.far.size(); ++i) over.push_back(times.far[i] - times.plain[i]);
    report.result(fmt::format("deref_ns_far_{}", pattern.name), median(times.far));
    report.result(fmt::format("deref_ns_plain_{}", pattern.name), median(times.plain));
    report.result(fmt::format("deref_ns_over_plain_{}", pattern.name), median(over));
    if (&pattern == &kPatterns.front()) report.result("deref_ns_over_plain", median(over));
  }
  return {};
}

Result<RunResult> measure(const Settings& settings, const Workload& workload, MemoryKind kind, Bytes local) {
  return heap::measure_run({.workload = &workload,
                            .memory = kind,
                            .work = heap::work_for(workload, settings.work),
                            .local = local,
                            .warm = local.count() == 0},
                           "shm");
}

// Far against plain, all local.
Result<void> measure_overheads(const Settings& settings, Report& report) {
  std::vector<double> means;
  for (const Workload* workload : settings.workloads) {
    std::vector<double> fractions;
    for (int round = 0; round < settings.rounds + 2; ++round) {
      YONDER_TRY(far, measure(settings, *workload, MemoryKind::kHybrid, Bytes(0)));
      YONDER_TRY(plain, measure(settings, *workload, MemoryKind::kPlain, Bytes(0)));
      fractions.push_back(1 - far.operations_per_s / plain.operations_per_s);
    }
    report.ratio(fmt::format("overhead_fraction_{}", workload->name), fractions);
    means.push_back(median(fractions));
  }
  double sum = 0;
  for (const double mean : means) sum += mean;
  report.ratio("overhead_fraction", sum / static_cast<double>(means.size()), 0);
  return {};
}

// Ticks of the processor's counter in a nanosecond.
double cycles_per_ns() {
  const os::TscClock clock;
  if (!clock.uses_tsc()) return 0;
  const Instant begin = os::SteadyClock::read();
  const std::uint64_t ticks = __builtin_ia32_rdtsc();
  while (os::SteadyClock::read() - begin < std::chrono::milliseconds(20)) {
  }
  return static_cast<double>(__builtin_ia32_rdtsc() - ticks) /
         static_cast<double>((os::SteadyClock::read() - begin).count());
}

// A cache at a quarter of local memory: what leaves, and what the tables take.
Result<void> measure_eviction(const Settings& settings, Report& report) {
  const Workload& workload = *heap::find_workload("MCD-U");
  YONDER_TRY(all_local, measure(settings, workload, MemoryKind::kHybrid, Bytes(0)));
  YONDER_TRY(run, measure(settings, workload, MemoryKind::kHybrid, Bytes(all_local.working_set_bytes / 4)));
  const double written = static_cast<double>(run.stats.pages_written) * far::kPageBytes;
  report.result("evict_cycles_per_byte",
                static_cast<double>(run.stats.egress_ns) * cycles_per_ns() / (written == 0 ? 1 : written));
  report.result("metadata_fraction",
                static_cast<double>(run.metadata_bytes) / static_cast<double>(run.far_bytes));
  return {};
}

}  // namespace

Result<void> run_barrier_bench(const Options& options, Report& report) {
  YONDER_TRY(settings, Settings::read(options));
  settings.describe(report);
  YONDER_TRY_VOID(measure_overheads(settings, report));
  YONDER_TRY_VOID(measure_eviction(settings, report));
  // Last: it makes threads (a heap's) in this process, and the runs before fork it.
  return measure_patterns(settings, report);
}

}  // namespace yonder::bench
