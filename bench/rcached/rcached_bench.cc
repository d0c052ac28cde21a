#include "bench/rcached/rcached_bench.h"

#include <filesystem>
#include <vector>

#include "bench/rcached/bench_parameters.h"
#include "bench/rcached/cache_load.h"
#include "bench/rcached/cache_process.h"
#include "bench/rcached/rebalance_experiment.h"

namespace yonder::bench {
namespace {

struct Contender {
  CacheProcess process;
  double overhead_bytes = 0;  // Per item.
  std::vector<double> operations_per_s = {};
  std::vector<double> p50_us = {};
  std::vector<double> p99_us = {};
};

Result<Contender> start(const std::string& program, const CacheLoad& load) {
  // Everything fits, with room for memcached's size classes: nobody evicts.
  const std::size_t memory_mib = 64 + static_cast<std::size_t>(load.keys * 400 >> 20);
  YONDER_TRY(process, CacheProcess::start({.program = program, .memory_mib = memory_mib}));
  YONDER_TRY(before, process.resident_bytes());
  YONDER_TRY_VOID(fill_cache(process.address(), load));
  YONDER_TRY(after, process.resident_bytes());
  const double payload = static_cast<double>(kCacheKeyBytes + load.value_bytes);
  return Contender{
      .process = std::move(process),
      .overhead_bytes = static_cast<double>(after - before) / static_cast<double>(load.keys) - payload};
}

Result<void> measure(Contender& contender, const CacheLoad& load) {
  YONDER_TRY(result, run_load(contender.process.address(), load));
  if (result.misses > 0)
    return fail(ErrorCode::kCorrupt, "a cache lost items that fit", static_cast<int>(result.misses));
  contender.operations_per_s.push_back(result.operations_per_s);
  contender.p50_us.push_back(static_cast<double>(result.latency_ns.percentile(50)) / 1e3);
  contender.p99_us.push_back(static_cast<double>(result.latency_ns.percentile(99)) / 1e3);
  return {};
}

std::string rcached_of(const Options& options) {
  const std::filesystem::path beside = std::filesystem::path(options.program).parent_path() / "rcached";
  return text_parameter(options, "rcached", beside.string());
}

std::vector<double> ratios(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> out;
  for (std::size_t i = 0; i < ours.size(); ++i) out.push_back(ours[i] / theirs[i]);
  return out;
}

void show(Report& report, const std::string& name, const Contender& contender) {
  report.result(name + "_ops_per_s", median(contender.operations_per_s));
  report.result(name + "_p50_us", median(contender.p50_us));
  report.result(name + "_p99_us", median(contender.p99_us));
  report.result(name + "_bytes_per_item", contender.overhead_bytes);
}

Result<void> compare_with_memcached(const Options& options, Report& report) {
  CacheLoad load{.keys = number_parameter(options, "keys", options.quick ? 200'000 : 2'000'000),
                 .connections = static_cast<unsigned>(number_parameter(options, "connections", 32)),
                 .duration = std::chrono::milliseconds(options.quick ? 150 : 500),
                 .seed = options.seed};
  // Many short rounds: what else the machine does then hits both alike.
  const std::uint64_t rounds = number_parameter(options, "rounds", options.quick ? 15 : 41);
  YONDER_TRY(theirs, start("memcached", load));
  YONDER_TRY(ours, start(rcached_of(options), load));
  for (std::uint64_t round = 0; round < rounds; ++round) {
    load.seed = options.seed + round;
    // Who goes first changes, so that neither has the warmer machine.
    YONDER_TRY_VOID(measure(round % 2 == 0 ? theirs : ours, load));
    YONDER_TRY_VOID(measure(round % 2 == 0 ? ours : theirs, load));
  }
  report.param("keys", static_cast<double>(load.keys));
  report.param("connections", load.connections);
  report.param("value_bytes", static_cast<double>(load.value_bytes));
  report.param("zipf_theta", load.theta);
  report.param("get_share", load.get_share);
  show(report, "memcached", theirs);
  show(report, "rcached", ours);
  report.ratio("tput_vs_memcached", ratios(ours.operations_per_s, theirs.operations_per_s));
  report.ratio("p99_vs_memcached", ratios(ours.p99_us, theirs.p99_us));
  report.ratio("bytes_per_item_vs_memcached", ours.overhead_bytes / theirs.overhead_bytes, 0);
  return {};
}

}  // namespace

Result<void> run_rcached_bench(const Options& options, Report& report) {
  const std::string experiment = text_parameter(options, "experiment", "all");
  if (experiment != "all" && experiment != "memcached" && experiment != "rebalance")
    return fail(ErrorCode::kInvalidArgument, "--experiment is memcached, rebalance or all");
  if (experiment != "rebalance") YONDER_TRY_VOID(compare_with_memcached(options, report));
  if (experiment != "memcached")
    YONDER_TRY_VOID(run_rebalance_experiment(rcached_of(options), options, report));
  return {};
}

}  // namespace yonder::bench
