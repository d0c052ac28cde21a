#include "bench/heap/sweep.h"

#include <fmt/format.h>
#include <stdio.h>

#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "bench/heap/far_node.h"

namespace yonder::bench::heap {
namespace {

constexpr unsigned kAll = 100;
constexpr std::array kBelowAll = {MemoryKind::kHybrid, MemoryKind::kObject, MemoryKind::kPaging,
                                  MemoryKind::kFaulted};
constexpr std::array kAtAll = {MemoryKind::kHybrid, MemoryKind::kPlain};

double geometric_mean(const std::vector<double>& logarithms) {
  return std::exp(std::accumulate(logarithms.begin(), logarithms.end(), 0.0) /
                  static_cast<double>(logarithms.size()));
}

}  // namespace

Work work_for(const Workload& workload, Work work) {
  work.bytes = static_cast<std::uint64_t>(static_cast<double>(work.bytes) * workload.share_of_bytes);
  return work;
}

Result<RunResult> measure_run(RunOptions options, const std::string& provider) {
  std::optional<FarNode> node;
  if (options.memory != MemoryKind::kPlain && provider == "tcp") {
    YONDER_TRY(started, FarNode::start(far_bytes_of(options)));
    node = std::move(started);
    options.node = node->address();
  } else {
    options.link = "model=rdma100g";
  }
  Result<RunResult> run = run_in_child(options);
  // The error alone does not say which of two hundred runs it was.
  if (!run)
    fmt::print(stderr, "heap bench: {} on {} with {} local bytes failed\n", options.workload->name,
               name_of(options.memory), options.local.count());
  return run;
}

Result<void> Sweep::run() {
  for (const Workload* workload : options_.workloads) YONDER_TRY_VOID(run_workload(*workload));
  report_means();
  return {};
}

// What it takes and what must come out is known from a run on all local memory, and from plain
// pointers; then everything else.
Result<void> Sweep::run_workload(const Workload& workload) {
  YONDER_TRY(plain, measure(workload, MemoryKind::kPlain, kAll));
  checksum_ = plain.checksum;
  YONDER_TRY(all_local, measure(workload, MemoryKind::kHybrid, kAll));
  working_set_bytes_ = all_local.working_set_bytes;
  report_.result(fmt::format("{}{}_working_set_bytes", options_.prefix, workload.name),
                 static_cast<double>(working_set_bytes_));
  for (const unsigned percent : options_.locals) YONDER_TRY_VOID(run_share(workload, percent));
  return {};
}

Result<RunResult> Sweep::measure(const Workload& workload, MemoryKind kind, unsigned percent, bool warm) {
  return measure_run({.workload = &workload,
                      .memory = kind,
                      .work = work_for(workload, options_.work),
                      .local = Bytes(percent == kAll ? 0 : working_set_bytes_ * percent / 100),
                      .warm = warm},
                     options_.provider);
}

Result<void> Sweep::run_share(const Workload& workload, unsigned percent) {
  std::span<const MemoryKind> kinds = percent == kAll ? std::span<const MemoryKind>(kAtAll) : kBelowAll;
  if (percent != kAll && !options_.faults) kinds = kinds.first(kinds.size() - 1);
  Rates rates;
  for (int round = 0; round < options_.rounds; ++round) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      // Another one begins each round, so that a drift of the machine hits all alike.
      const MemoryKind kind = kinds[(i + static_cast<std::size_t>(round)) % kinds.size()];
      YONDER_TRY(run, measure(workload, kind, percent, percent == kAll));
      wrong_objects_ += run.wrong_objects + (run.checksum == checksum_ ? 0 : 1);
      rates[kind].push_back(run.operations_per_s);
      if (kind != MemoryKind::kPlain && kind != MemoryKind::kFaulted && round + 1 == options_.rounds)
        report_run(fmt::format("{}{}_{}_{}", options_.prefix, workload.name, percent, name_of(kind)), run);
    }
  }
  for (const MemoryKind kind : kinds) {
    report_.result(
        fmt::format("{}{}_{}_{}_ops_per_s", options_.prefix, workload.name, percent, name_of(kind)),
        median(rates[kind]));
    if (kind == MemoryKind::kHybrid) continue;
    std::vector<double> ratios;
    for (std::size_t round = 0; round < rates[kind].size(); ++round)
      ratios.push_back(rates[MemoryKind::kHybrid][round] / rates[kind][round]);
    report_.ratio(fmt::format("{}hybrid_vs_{}_{}_{}", options_.prefix, name_of(kind), workload.name, percent),
                  ratios);
    logarithms_[name_of(kind)].push_back(std::log(median(ratios)));
  }
  return {};
}

void Sweep::report_run(const std::string& name, const RunResult& run) {
  const far::HeapStats& stats = run.stats;
  const double fetches = static_cast<double>(stats.page_ins + stats.object_ins);
  report_.result(name + "_amplification", stats.amplification());
  report_.result(name + "_page_share", fetches == 0 ? 0 : static_cast<double>(stats.page_ins) / fetches);
  const auto count = [&](const char* what, std::uint64_t value) {
    report_.result(fmt::format("{}_{}", name, what), static_cast<double>(value));
  };
  count("far_bytes", run.far_bytes);
  count("page_ins", stats.page_ins);
  count("object_ins", stats.object_ins);
  count("page_copies", stats.page_copies);
  count("objects_from_copies", stats.objects_from_copies);
  count("objects_ahead", stats.objects_ahead);
  count("objects_ahead_used", stats.objects_ahead_used);
  count("read_ahead", stats.read_ahead);
  count("read_ahead_used", stats.read_ahead_used);
  count("flips_to_page", stats.flips_to_page);
  count("flips_to_object", stats.flips_to_object);
  count("evictions", stats.pages_written + stats.pages_dropped);
  count("objects_written", stats.objects_written);
  count("evacuated_pages", stats.evacuated_pages);
  count("stalls", stats.stalls);
}

void Sweep::report_means() {
  report_.result(options_.prefix + "wrong_objects", static_cast<double>(wrong_objects_));
  for (const auto& [baseline, logarithms] : logarithms_)
    report_.ratio(fmt::format("{}hybrid_vs_{}", options_.prefix, baseline), geometric_mean(logarithms), 0);
}

}  // namespace yonder::bench::heap
