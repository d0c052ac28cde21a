#include "bench/join/join_bench.h"

#include <fmt/format.h>

#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/join/local_join.h"
#include "bench/join/real_join.h"
#include "bench/join/sim_join.h"
#include "yonder/base/prng.h"

namespace yonder::bench {
namespace {

using structures::ShuffleStrategy;

// A simulation has no spread: the same seed gives the same run.
constexpr double kNoSpread = 0;

Result<void> add_simulated(const Options& options, Report& report) {
  const SimJoinOptions best{.seed = options.seed, .rows = options.quick ? 160'000u : 640'000u};
  SimJoinOptions packed = best;
  packed.strategy = ShuffleStrategy::kPack;
  SimJoinOptions unplaced = best;
  unplaced.numa_aware = false;
  SimJoinOptions basic = unplaced;
  basic.strategy = ShuffleStrategy::kBasic;
  SimJoinOptions skewed = best;
  skewed.theta = 0.99;
  SimJoinOptions unaware = skewed;
  unaware.heavy_keys = false;
  YONDER_TRY(best_s, measure_sim_join(best));
  YONDER_TRY(packed_s, measure_sim_join(packed));
  YONDER_TRY(unplaced_s, measure_sim_join(unplaced));
  YONDER_TRY(basic_s, measure_sim_join(basic));
  YONDER_TRY(skewed_s, measure_sim_join(skewed));
  YONDER_TRY(unaware_s, measure_sim_join(unaware));
  const double single_s = single_machine_seconds(best.rows);
  report.param("sim_rows", static_cast<double>(best.rows));
  report.param("sim_executors", best.executors);
  const std::pair<const char*, double> seconds[] = {{"single_machine", single_s},
                                                    {"optimised", best_s},
                                                    {"packed", packed_s},
                                                    {"without_numa", unplaced_s},
                                                    {"basic", basic_s},
                                                    {"zipf99", skewed_s},
                                                    {"zipf99_without_heavy_keys", unaware_s}};
  for (const auto& [name, value] : seconds) report.result(fmt::format("sim_{}_ms", name), value * 1e3);
  report.ratio("optimised_vs_single", single_s / best_s, kNoSpread);
  report.ratio("optimised_vs_basic", basic_s / best_s, kNoSpread);
  report.ratio("numa_vs_not", unplaced_s / best_s, kNoSpread);
  report.ratio("skewed_vs_uniform", best_s / skewed_s, kNoSpread);
  report.ratio("heavy_keys_vs_none", unaware_s / skewed_s, kNoSpread);
  for (const std::uint32_t executors : {4u, 8u}) {
    SimJoinOptions fewer = best;
    fewer.executors = executors;
    YONDER_TRY(fewer_s, measure_sim_join(fewer));
    report.result(fmt::format("sim_optimised_{}_executors_ms", executors), fewer_s * 1e3);
  }
  return {};
}

// Build keys 1 … n in a random order, each once; probe keys uniform among them.
std::pair<std::vector<Tuple>, std::vector<Tuple>> make_relations(std::uint64_t rows, std::uint64_t seed) {
  Prng random(seed);
  std::vector<Tuple> build(rows);
  std::vector<Tuple> probe(rows);
  for (std::uint64_t i = 0; i < rows; ++i) {
    build[i] = {i + 1, random()};
    probe[i] = {random.below(rows) + 1, random()};
  }
  for (std::uint64_t i = rows; i > 1; --i) std::swap(build[i - 1], build[random.below(i)]);
  return {std::move(build), std::move(probe)};
}

Result<void> add_real(const Options& options, std::string_view provider, const char* key, Report& report) {
  const std::uint64_t rows = options.quick ? 1'000'000 : 16'000'000;
  const int rounds = options.quick ? 5 : 3;
  const auto [build, probe] = make_relations(rows, options.seed);
  report.param("rows", static_cast<double>(rows));
  Result<void> outcome;
  std::vector<double> ours;
  std::vector<double> local;
  std::uint64_t expected = 0;
  const auto run_local = [&] {
    const LocalJoin join = run_local_join(build, probe, 2);
    expected = join.checksum;
    local.push_back(join.seconds);
    return join.seconds;
  };
  const auto run_ours = [&] {
    const Result<LocalJoin> join = run_real_join(build, probe, {.provider = provider});
    if (!join) {
      outcome = std::unexpected(join.error());
      return 1.0;
    }
    if (expected != 0 && (join->results != rows || join->checksum != expected))
      outcome = fail(ErrorCode::kCorrupt, "join: another result than the local one");
    ours.push_back(join->seconds);
    return join->seconds;
  };
  (void)run_local();  // Touches the memory, and gives the checksum.
  local.clear();
  const std::vector<double> ratios = compare(rounds, run_ours, run_local);
  if (!outcome) return outcome;
  report.ratio(key, ratios);
  report.result(fmt::format("{}_join_seconds", provider), median(ours));
  report.result("local_join_seconds", median(local));
  return {};
}

}  // namespace

Result<void> run_join_bench(const Options& options, Report& report) {
  return for_providers(options, report, {"sim", "shm", "tcp"},
                       [&](const std::string& provider) -> Result<void> {
                         if (provider == "sim") return add_simulated(options, report);
                         if (provider == "shm") return add_real(options, provider, "join_vs_local", report);
                         // It takes long: only for who asks.
                         if (options.fabric != "tcp") return {};
                         return add_real(options, provider, "tcp_join_vs_local", report);
                       });
}

}  // namespace yonder::bench
