#include "bench/log/log_bench.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/harness/target_process.h"
#include "bench/log/log_engine.h"
#include "yonder/fabric/open/open.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/structures/log.h"

namespace yonder::bench {
namespace {

using structures::Log;
using structures::LogBatching;
using structures::LogOptions;

// Large enough that the simulated runs do not wrap: what is measured is appending.
constexpr LogOptions kSimLog{.slots = std::uint64_t{1} << 20};
constexpr LogOptions kRealLog{.slots = std::uint64_t{1} << 18};
constexpr std::uint32_t kMachines = 8;

// ---------------------------------------------------------------- simulated

struct SimRun {
  std::uint32_t engines = 7;
  bool numa_aware = true;
  EngineOptions engine;
};

// Million records a second of virtual time.
class SimCluster {
 public:
  SimCluster(std::uint64_t seed, const SimRun& run)
      : run_(run),
        world_({.seed = seed,
                .hosts = kMachines,
                .host = {.sockets = 2,
                         .nics = {{.socket = 0, .model = fabric::sim::connectx3_40g()},
                                  {.socket = 1, .model = fabric::sim::connectx3_40g()}}}}) {}
  ~SimCluster() {
    engines_.clear();
    for (auto& endpoint : endpoints_) endpoint->close();
  }

  Result<double> measure(Duration duration) {
    YONDER_TRY_VOID(lend());
    for (std::uint32_t i = 0; i < run_.engines; ++i) YONDER_TRY_VOID(add_engine(i));
    const Instant begin = world_.clock().now();
    std::vector<Result<void>> ended(run_.engines);
    const auto drive = [&](std::uint32_t i) -> fabric::Task<void> {
      ended[i] = co_await engines_[i]->run(world_.clock(), begin + duration);
    };
    for (std::uint32_t i = 0; i < run_.engines; ++i) scheduler_->spawn(drive(i));
    YONDER_TRY_VOID(scheduler_->run(Deadline::after(world_.clock(), 10 * duration)));
    std::uint64_t records = 0;
    for (std::uint32_t i = 0; i < run_.engines; ++i) {
      YONDER_TRY_VOID(ended[i]);
      records += engines_[i]->appended();
    }
    return static_cast<double>(records) * 1e3 / static_cast<double>((world_.clock().now() - begin).count());
  }

 private:
  Result<void> lend() {
    memory_.resize(Log::bytes_for(kSimLog) / 8);
    fabric::Fabric& fabric = world_.host(0).fabric();
    YONDER_TRY(region, fabric.register_memory({.memory = std::as_writable_bytes(std::span(memory_)),
                                               .rights = fabric::Rights::kAll}));
    region_ = std::move(region);
    YONDER_TRY(listener, fabric.listen({.address = "sim://host0:7400", .passive = true}));
    listener_ = std::move(listener);
    return {};
  }

  // Engines take turns on the other machines, and there on the sockets. The log's memory
  // and port are on socket 0, so an engine that minds has thread, rows and port there.
  Result<void> add_engine(std::uint32_t index) {
    fabric::sim::Host& host = world_.host(1 + index % (kMachines - 1));
    const std::uint32_t far = run_.numa_aware ? 0 : 1;
    host.place({.socket = far, .memory_socket = far, .nic = 0});
    YONDER_TRY(queue, host.fabric().create_completion_queue({}));
    queues_.push_back(std::move(queue));
    if (scheduler_ == nullptr) scheduler_ = std::make_unique<fabric::Scheduler>(*queues_.back());
    YONDER_TRY(endpoint, host.fabric().connect({.address = "sim://host0:7400"}, *queues_.back()));
    endpoints_.push_back(std::move(endpoint));
    const remote::Port port(*endpoints_.back(), *scheduler_);
    if (index == 0) YONDER_TRY_VOID(Log::create(port, region_.token(), kSimLog));
    YONDER_TRY(log, Log::open(host.fabric(), port, region_.token()));
    YONDER_TRY(engine, LogEngine::create(host.fabric(), std::move(log), run_.engine));
    engines_.push_back(std::move(engine));
    return {};
  }

  const SimRun run_;
  fabric::sim::World world_;
  std::vector<std::uint64_t> memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  std::vector<std::unique_ptr<fabric::CompletionQueue>> queues_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::vector<std::unique_ptr<fabric::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<LogEngine>> engines_;
};

Result<double> simulate(const Options& options, const SimRun& run) {
  SimCluster cluster(options.seed, run);
  return cluster.measure(options.quick ? std::chrono::milliseconds(1) : std::chrono::milliseconds(5));
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

// One engine, and a log in the memory of another process.
class RealLog {
 public:
  static Result<std::unique_ptr<RealLog>> connect(const std::string& address) {
    auto real = std::make_unique<RealLog>();
    YONDER_TRY(opened, fabric::open(address));
    real->fabric_ = std::move(opened);
    YONDER_TRY(queue, real->fabric_->create_completion_queue({}));
    real->queue_ = std::move(queue);
    real->scheduler_ = std::make_unique<fabric::Scheduler>(*real->queue_);
    YONDER_TRY(endpoint, real->fabric_->connect({.address = address}, *real->queue_));
    real->endpoint_ = std::move(endpoint);
    YONDER_TRY(token, fabric::RegionToken::decode(real->endpoint_->greeting()));
    real->token_ = token;
    YONDER_TRY_VOID(Log::create(real->port(), token, kRealLog));
    return real;
  }

  // Records a second.
  Result<double> measure(const EngineOptions& engine_options, Duration duration) {
    YONDER_TRY(log, Log::open(*fabric_, port(), token_));
    YONDER_TRY(engine, LogEngine::create(*fabric_, std::move(log), engine_options));
    const Clock& clock = fabric_->clock();
    const Instant begin = clock.now();
    YONDER_TRY_VOID(scheduler_->block_on(engine->run(clock, begin + duration)));
    return static_cast<double>(engine->appended()) * 1e9 / static_cast<double>((clock.now() - begin).count());
  }

 private:
  remote::Port port() { return {*endpoint_, *scheduler_}; }

  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
  fabric::RegionToken token_;
};

Result<void> measure_real(const Options& options, const std::string& provider, Report& report) {
  const std::string address = provider == "tcp" ? "tcp://127.0.0.1:0" : "shm:";
  YONDER_TRY(target, TargetProcess::start(options.program, {.addresses = {address},
                                                            .memory = Bytes(Log::bytes_for(kRealLog))}));
  YONDER_TRY(real, RealLog::connect(target.addresses()[0]));
  const Duration duration = std::chrono::milliseconds(options.quick ? 150 : 600);
  const int rounds = options.quick ? 5 : 11;
  std::vector<double> ratios;
  std::vector<double> single;
  std::vector<double> batched;
  for (int i = 0; i < rounds; ++i) {
    YONDER_TRY(one, real->measure({.batch = 1}, duration));
    YONDER_TRY(many, real->measure({.batch = 32}, duration));
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
  if (options.fabric == "sim") {
    report.set_simulated(true);
    return measure_sim(options, report);
  }
  for (const char* provider : {"shm", "tcp"}) {
    if (options.wants(provider)) YONDER_TRY_VOID(measure_real(options, provider, report));
  }
  return {};
}

}  // namespace yonder::bench
