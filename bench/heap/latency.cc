#include "bench/heap/latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "bench/heap/sweep.h"

namespace yonder::bench::heap {
namespace {

constexpr double kLoad = 0.8;
// A tail is made by few events, so that one round says little, however long it is.
constexpr int kLeastRounds = 5;
constexpr std::array kKinds = {MemoryKind::kHybrid, MemoryKind::kObject, MemoryKind::kPaging};

bool serves_requests(const Workload& workload) { return workload.name == "WS" || workload.name == "MCD-CL"; }

struct Percentiles {
  std::vector<double> p90_ns;
  std::vector<double> p99_ns;
};

std::vector<double> quotients(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  return ratios;
}

void report_percentiles(const std::string& prefix, std::string_view workload,
                        const std::map<MemoryKind, Percentiles>& all, Report& report) {
  const Percentiles& ours = all.at(MemoryKind::kHybrid);
  for (const auto& [kind, theirs] : all) {
    report.result(fmt::format("{}{}_load_{}_p90_us", prefix, workload, name_of(kind)),
                  median(theirs.p90_ns) / 1e3);
    report.result(fmt::format("{}{}_load_{}_p99_us", prefix, workload, name_of(kind)),
                  median(theirs.p99_ns) / 1e3);
    if (kind == MemoryKind::kHybrid) continue;
    report.ratio(fmt::format("{}hybrid_p90_vs_{}_{}", prefix, name_of(kind), workload),
                 quotients(ours.p90_ns, theirs.p90_ns));
    report.ratio(fmt::format("{}hybrid_p99_vs_{}_{}", prefix, name_of(kind), workload),
                 quotients(ours.p99_ns, theirs.p99_ns));
  }
}

Result<void> measure_workload(const Workload& workload, const LatencyOptions& options, Report& report) {
  RunOptions run{.workload = &workload, .work = work_for(workload, options.work)};
  YONDER_TRY(all_local, measure_run(run, options.provider));
  run.local = Bytes(all_local.working_set_bytes / 4);
  YONDER_TRY(peak, measure_run(run, options.provider));
  run.work.requests_per_s = kLoad * peak.operations_per_s;
  report.result(fmt::format("{}{}_load_requests_per_s", options.prefix, workload.name),
                run.work.requests_per_s);
  std::map<MemoryKind, Percentiles> all;
  for (int round = 0; round < std::max(options.rounds, kLeastRounds); ++round) {
    for (const MemoryKind kind : kKinds) {
      run.memory = kind;
      YONDER_TRY(loaded, measure_run(run, options.provider));
      all[kind].p90_ns.push_back(static_cast<double>(loaded.p90_ns));
      all[kind].p99_ns.push_back(static_cast<double>(loaded.p99_ns));
    }
  }
  report_percentiles(options.prefix, workload.name, all, report);
  return {};
}

}  // namespace

Result<void> measure_latency(const LatencyOptions& options, Report& report) {
  for (const Workload* workload : options.workloads)
    if (serves_requests(*workload)) YONDER_TRY_VOID(measure_workload(*workload, options, report));
  return {};
}

}  // namespace yonder::bench::heap
