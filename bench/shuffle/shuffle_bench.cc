#include "bench/shuffle/shuffle_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "bench/shuffle/real_shuffle.h"
#include "bench/shuffle/sim_shuffle.h"

namespace yonder::bench {
namespace {

using structures::ShuffleStrategy;

Result<double> simulate(SimShuffleOptions options, ShuffleStrategy strategy, std::uint32_t batch, bool numa) {
  options.strategy = strategy;
  options.batch_entries = batch;
  options.numa_aware = numa;
  return measure_sim_shuffle(options);
}

// A simulation has no spread: the same seed gives the same run.
constexpr double kNoSpread = 0;

Result<void> add_simulated(const Options& options, Report& report) {
  const SimShuffleOptions common{.seed = options.seed, .entries = options.quick ? 4'000u : 20'000u};
  report.param("sim_executors", common.executors);
  report.param("sim_entries_per_executor", static_cast<double>(common.entries));
  report.param("entry_bytes", common.entry_bytes);
  YONDER_TRY(basic, simulate(common, ShuffleStrategy::kBasic, 1, true));
  YONDER_TRY(basic_unplaced, simulate(common, ShuffleStrategy::kBasic, 1, false));
  report.result("sim_basic_mops", basic);
  report.result("sim_basic_without_numa_mops", basic_unplaced);
  report.ratio("numa_vs_not", basic / basic_unplaced, kNoSpread);
  double best = 0;
  for (const std::uint32_t batch : {4u, 16u, 32u}) {
    YONDER_TRY(packed, simulate(common, ShuffleStrategy::kPack, batch, true));
    YONDER_TRY(gathered, simulate(common, ShuffleStrategy::kGather, batch, true));
    report.result(fmt::format("sim_sp_{}_mops", batch), packed);
    report.result(fmt::format("sim_sgl_{}_mops", batch), gathered);
    report.ratio(fmt::format("sp_vs_basic_{}", batch), packed / basic, kNoSpread);
    report.ratio(fmt::format("sgl_vs_basic_{}", batch), gathered / basic, kNoSpread);
    if (batch == 16) best = std::max(packed, gathered);  // The paper's figure is of batch 16.
  }
  report.ratio("optimised_vs_basic", best / basic, kNoSpread);
  report.ratio("optimised_vs_basic_without_numa", best / basic_unplaced, kNoSpread);
  return {};
}

Result<void> add_real(const Options& options, std::string_view provider, Report& report) {
  const int rounds = options.quick ? 5 : 11;
  RealShuffleOptions packed{.provider = provider, .entries = options.quick ? 50'000u : 200'000u};
  RealShuffleOptions basic = packed;
  basic.strategy = ShuffleStrategy::kBasic;
  Result<void> outcome;
  std::vector<double> packed_mops;
  std::vector<double> basic_mops;
  const auto measure = [&outcome](const RealShuffleOptions& what, std::vector<double>& out) {
    const Result<double> mops = measure_real_shuffle(what);
    if (!mops) outcome = std::unexpected(mops.error());
    out.push_back(mops.value_or(1));
    return out.back();
  };
  const std::vector<double> ratios = compare(
      rounds, [&] { return measure(packed, packed_mops); }, [&] { return measure(basic, basic_mops); });
  if (!outcome) return outcome;
  report.ratio(fmt::format("{}_sp_vs_basic", provider), ratios);
  report.result(fmt::format("{}_sp_16_mops", provider), median(packed_mops));
  report.result(fmt::format("{}_basic_mops", provider), median(basic_mops));
  return {};
}

}  // namespace

Result<void> run_shuffle_bench(const Options& options, Report& report) {
  return for_providers(options, report, {"sim", "shm", "tcp"}, [&](const std::string& provider) {
    return provider == "sim" ? add_simulated(options, report) : add_real(options, provider, report);
  });
}

}  // namespace yonder::bench
