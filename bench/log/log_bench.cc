#include "bench/log/log_bench.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/lent/lent_process.h"
#include "bench/lent/paper_cluster.h"
#include "bench/log/log_engine.h"
#include "yonder/structures/log.h"

namespace yonder::bench {
namespace {

using structures::Log;
using structures::LogBatching;
using structures::LogOptions;

// Large enough that the simulated runs do not wrap: what is measured is appending.
constexpr LogOptions kSimLog{.slots = std::uint64_t{1} << 20};
constexpr LogOptions kRealLog{.slots = std::uint64_t{1} << 18};

// ---------------------------------------------------------------- simulated

struct SimRun {
  std::uint32_t engines = 7;
  bool numa_aware = true;
  EngineOptions engine;
};

// Million records a second of virtual time.
Result<double> simulate(const Options& options, const SimRun& run) {
  YONDER_TRY(cluster, PaperCluster::create(options.seed, Log::bytes_for(kSimLog)));
  std::vector<std::unique_ptr<LogEngine>> engines;
  for (std::uint32_t i = 0; i < run.engines; ++i) {
    YONDER_TRY(client, cluster->add_client(run.numa_aware));
    if (i == 0) YONDER_TRY_VOID(Log::create(client.port, cluster->token(), kSimLog));
    YONDER_TRY(log, Log::open(*client.fabric, client.port, cluster->token()));
    YONDER_TRY(engine, LogEngine::create(*client.fabric, std::move(log), run.engine));
    engines.push_back(std::move(engine));
  }
  const Duration duration = std::chrono::milliseconds(options.quick ? 1 : 5);
  const Instant begin = cluster->clock().now();
  std::vector<Result<void>> ended(run.engines);
  const auto drive = [&](std::uint32_t i) -> fabric::Task<void> {
    ended[i] = co_await engines[i]->run(cluster->clock(), begin + duration);
  };
  for (std::uint32_t i = 0; i < run.engines; ++i) cluster->scheduler().spawn(drive(i));
  YONDER_TRY_VOID(cluster->scheduler().run(Deadline::after(cluster->clock(), 10 * duration)));
  std::uint64_t records = 0;
  for (std::uint32_t i = 0; i < run.engines; ++i) {
    YONDER_TRY_VOID(ended[i]);
    records += engines[i]->appended();
  }
  return static_cast<double>(records) * 1e3 / static_cast<double>((cluster->clock().now() - begin).count());
}

Result<void> measure_sim(const Options& options, Report& report) {
  for (const std::uint32_t engines : {1u, 7u, 14u}) {
    YONDER_TRY(single, simulate(options, {.engines = engines}));
    report.result(fmt::format("sim_mops_unbatched_{}", engines), single);
    YONDER_TRY(careless, simulate(options, {.engines = engines, .numa_aware = false}));
    report.result(fmt::format("sim_mops_unbatched_not_numa_{}", engines), careless);
    report.ratio(fmt::format("numa_vs_not_{}", engines), single / careless, 0);
    for (const std::uint32_t batch : {4u, 8u, 16u, 32u}) {
      YONDER_TRY(packed, simulate(options, {.engines = engines, .engine = {.batch = batch}}));
      report.result(fmt::format("sim_mops_batch_{}_{}", batch, engines), packed);
      report.ratio(fmt::format("batch_{}_vs_unbatched_{}", batch, engines), packed / single, 0);
      YONDER_TRY(gathered, simulate(options, {.engines = engines,
                                              .engine = {.batch = batch, .batching = LogBatching::kGather}}));
      report.ratio(fmt::format("sgl_{}_vs_unbatched_{}", batch, engines), gathered / single, 0);
      if (engines != 7 || batch != 32) continue;
      report.ratio("batched_vs_unbatched", packed / single, 0);
      report.ratio("optimised_vs_basic", packed / careless, 0);
    }
  }
  return {};
}

// ---------------------------------------------------------------- real

// Records a second, of one engine and a log in the memory of another process.
Result<double> append(LentProcess& lent, const EngineOptions& options, Duration duration) {
  YONDER_TRY(log, Log::open(*lent.fabric, lent.port(), lent.token));
  YONDER_TRY(engine, LogEngine::create(*lent.fabric, std::move(log), options));
  const Clock& clock = lent.fabric->clock();
  const Instant begin = clock.now();
  YONDER_TRY_VOID(lent.scheduler->block_on(engine->run(clock, begin + duration)));
  return static_cast<double>(engine->appended()) * 1e9 / static_cast<double>((clock.now() - begin).count());
}

Result<void> measure_real(const Options& options, const std::string& provider, Report& report) {
  YONDER_TRY(lent, LentProcess::start(options, provider, Bytes(Log::bytes_for(kRealLog))));
  YONDER_TRY_VOID(Log::create(lent->port(), lent->token, kRealLog));
  const Duration duration = std::chrono::milliseconds(options.quick ? 150 : 600);
  const int rounds = options.quick ? 5 : 11;
  std::vector<double> ratios;
  std::vector<double> single;
  std::vector<double> batched;
  for (int i = 0; i < rounds; ++i) {
    YONDER_TRY(one, append(*lent, {.batch = 1}, duration));
    YONDER_TRY(many, append(*lent, {.batch = 32}, duration));
    single.push_back(one);
    batched.push_back(many);
    ratios.push_back(many / one);
  }
  report.result(fmt::format("{}_records_per_s_unbatched", provider), median(single));
  report.result(fmt::format("{}_records_per_s_batch_32", provider), median(batched));
  // Without the provider's name: of the one that was asked for, and of tcp otherwise.
  report.ratio(fmt::format("batched_vs_unbatched_{}", provider), ratios);
  if (provider == "tcp" || options.fabric == provider) report.ratio("batched_vs_unbatched", ratios);
  return {};
}

}  // namespace

Result<void> run_log_bench(const Options& options, Report& report) {
  report.param("record_bytes", 64);
  // Not with "all": some figures have the same names.
  if (options.fabric == "sim") {
    report.set_simulated(true);
    return measure_sim(options, report);
  }
  return for_providers(options, report, {"shm", "tcp"},
                       [&](const std::string& provider) { return measure_real(options, provider, report); });
}

}  // namespace yonder::bench
