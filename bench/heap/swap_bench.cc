#include "bench/heap/swap_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/heap/swap.h"
#include "bench/heap/sweep.h"

namespace yonder::bench::heap {
namespace {

// A fault takes up to 80 µs: more would take hours.
constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;
constexpr double kEffort = 0.25;
constexpr std::uint64_t kSlackBytes = std::uint64_t{4} << 20;

bool is_compared(const Workload& workload) { return workload.name == "MCD-CL" || workload.name == "GPR"; }

// The same share of the objects local as in the heap, and all that is local there.
SwapOptions swap_for(const RunResult& far, const RunResult& plain) {
  const std::uint64_t rest = plain.peak_rss_bytes - std::min(plain.peak_rss_bytes, far.working_set_bytes);
  return {.limit = Bytes(far.working_set_bytes / 4 + rest + kSlackBytes),
          .device = Bytes(plain.peak_rss_bytes * 2)};
}

// Of each round: hybrid / swap.
Result<std::vector<double>> measure_workload(const Workload& workload, const SwapBenchOptions& options,
                                             Report& report) {
  RunOptions far{.workload = &workload, .work = work_for(workload, options.work)};
  YONDER_TRY(all_local, measure_run(far, "shm"));
  far.local = Bytes(all_local.working_set_bytes / 4);
  RunOptions swapped{.workload = &workload, .memory = MemoryKind::kPlain, .work = far.work};
  YONDER_TRY(plain, measure_run(swapped, "shm"));
  std::vector<double> ratios;
  std::vector<double> rates;
  for (int round = 0; round < options.rounds; ++round) {
    YONDER_TRY(ours, measure_run(far, "shm"));
    YONDER_TRY(bed, SwapBed::create(swap_for(all_local, plain)));
    swapped.in_child = [&bed] { return bed.join(); };
    YONDER_TRY(theirs, measure_run(swapped, "shm"));
    if (theirs.checksum != ours.checksum)
      return fail(ErrorCode::kCorrupt, "heap bench: swap and heap differ");
    ratios.push_back(ours.operations_per_s / theirs.operations_per_s);
    rates.push_back(theirs.operations_per_s);
  }
  report.result(fmt::format("{}_25_swap_ops_per_s", workload.name), median(rates));
  return ratios;
}

}  // namespace

Result<void> measure_swap(const SwapBenchOptions& options, Report& report) {
  SwapBenchOptions small = options;
  small.work.bytes = std::min(small.work.bytes, kMostBytes);
  small.work.effort = kEffort;
  double logarithm = 0;
  int compared = 0;
  for (const Workload* workload : options.workloads) {
    if (!is_compared(*workload)) continue;
    const auto ratios = measure_workload(*workload, small, report);
    if (!ratios && ratios.error() == ErrorCode::kUnsupported) {
      report.result("swap_unsupported", 1);
      return {};
    }
    if (!ratios && ratios.error() == ErrorCode::kClosed) {
      report.result(fmt::format("swap_run_failed_{}", workload->name), 1);
      continue;
    }
    if (!ratios) return std::unexpected(ratios.error());
    report.ratio(fmt::format("hybrid_vs_swap_{}", workload->name), *ratios);
    logarithm += std::log(median(*ratios));
    ++compared;
  }
  if (compared != 0) report.ratio("hybrid_vs_swap", std::exp(logarithm / compared), 0);
  return {};
}

}  // namespace yonder::bench::heap
