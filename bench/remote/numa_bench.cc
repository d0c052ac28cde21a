#include "bench/remote/numa_bench.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "bench/remote/rig.h"
#include "yonder/remote/numa_router.h"

namespace yonder::bench {
namespace {

using fabric::sim::Placement;
using fabric::sim::World;

constexpr std::uint32_t kBytes = 32;
constexpr std::size_t kMemory = 1 << 20;

// Two hosts of two sockets with a NIC on each; every socket has memory at the target and
// a thread at the client.
class TwoSockets {
 public:
  struct Thread {
    std::unique_ptr<fabric::CompletionQueue> queue;
    std::unique_ptr<fabric::Endpoint> endpoint;
  };

  static Result<std::unique_ptr<TwoSockets>> create(std::uint64_t seed) {
    auto bed = std::unique_ptr<TwoSockets>(new TwoSockets(seed));
    for (std::uint32_t socket = 0; socket < 2; ++socket) {
      bed->world_.host(0).place({.socket = socket, .memory_socket = socket, .nic = socket});
      fabric::Fabric& target = bed->world_.host(0).fabric();
      YONDER_TRY(region,
                 target.register_memory({.memory = bed->memory_[socket], .rights = fabric::Rights::kAll}));
      bed->regions_[socket] = std::move(region);
      const std::string address = fmt::format("sim://host0:{}?nic={}", 7400 + socket, socket);
      YONDER_TRY(listener, target.listen({.address = address, .passive = true}));
      bed->listeners_[socket] = std::move(listener);
    }
    return bed;
  }
  ~TwoSockets() {
    for (const auto& thread : threads_) thread->endpoint.reset();
    scheduler_.reset();
  }

  // A thread on `socket` that is connected by NIC `nic` to NIC `nic` of the target.
  Result<Thread*> add_thread(std::uint32_t socket, std::uint32_t nic) {
    world_.host(1).place({.socket = socket, .memory_socket = socket, .nic = nic});
    fabric::Fabric& fabric = world_.host(1).fabric();
    auto thread = std::make_unique<Thread>();
    YONDER_TRY(queue, fabric.create_completion_queue({}));
    thread->queue = std::move(queue);
    YONDER_TRY(endpoint, fabric.connect({.address = listeners_[nic]->address()}, *thread->queue));
    thread->endpoint = std::move(endpoint);
    if (!scheduler_) scheduler_ = std::make_unique<fabric::Scheduler>(*thread->queue);
    threads_.push_back(std::move(thread));
    return threads_.back().get();
  }
  fabric::RemoteAddress at(std::uint32_t socket, std::uint64_t offset) const {
    return regions_[socket].token().at(offset);
  }
  fabric::Scheduler& scheduler() { return *scheduler_; }
  remote::Port port(Thread& thread) { return {*thread.endpoint, *scheduler_}; }
  const Clock& clock() const { return world_.clock(); }

 private:
  explicit TwoSockets(std::uint64_t seed)
      : world_({.seed = seed, .hosts = 2, .host = {.sockets = 2, .nics = {{.socket = 0}, {.socket = 1}}}}) {}

  World world_;
  std::vector<std::byte> memory_[2] = {std::vector<std::byte>(kMemory), std::vector<std::byte>(kMemory)};
  fabric::Region regions_[2];
  std::unique_ptr<fabric::Listener> listeners_[2];
  std::vector<std::unique_ptr<Thread>> threads_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
};

// Writes (inline) or reads of 32 bytes, one after the other.
fabric::Task<void> repeat(remote::NumaRouter& router, std::uint32_t socket, fabric::WorkRequest request,
                          Meter& meter) {
  while (meter.goes_on()) {
    const Result<fabric::Completion> done = co_await router.async_perform(socket, request);
    meter.count(done.has_value());
  }
  --meter.running;
}

// A proxy serves on, so the scheduler's own end is none.
fabric::Task<bool> until_all_ended(fabric::Scheduler& scheduler, const Meter& meter) {
  while (meter.running > 0) co_await scheduler.sleep_for(std::chrono::microseconds(1));
  co_return true;
}

// How a request gets to memory on socket 1 of the target.
struct Path {
  const char* name;
  std::uint32_t thread_socket;
  std::uint32_t nic;
  std::uint32_t memory_socket;
  bool by_proxy;
};

struct Figures {
  double latency_us = 0;
  double mops = 0;
};

Result<double> measure_path(TwoSockets& bed, remote::NumaRouter& router, const Path& path, fabric::Op op,
                            int outstanding, Duration duration) {
  std::vector<std::byte> bytes(kBytes);
  const fabric::LocalPiece piece = fabric::LocalPiece::of(bytes);
  const fabric::WorkRequest request{
      .op = op,
      .flags = op == fabric::Op::kWrite ? fabric::RequestFlags::kInline : fabric::RequestFlags::kNone,
      .local = {&piece, 1},
      .remote = bed.at(path.memory_socket, 0)};
  const Instant begin = bed.clock().now();
  Meter meter{.clock = &bed.clock(), .end = begin + duration, .running = outstanding};
  // A router that has no proxy takes any socket for its own.
  for (int i = 0; i < outstanding; ++i)
    bed.scheduler().spawn(repeat(router, path.memory_socket, request, meter));
  bed.scheduler().block_on(until_all_ended(bed.scheduler(), meter));
  if (meter.failed > 0) return fail(ErrorCode::kCorrupt, "measured operations failed");
  return static_cast<double>(meter.done) * 1e3 / static_cast<double>((meter.last - begin).count());
}

Result<Figures> figures_of(const Path& path, fabric::Op op, const Options& options) {
  Figures figures;
  for (const int outstanding : {1, 32}) {
    YONDER_TRY(bed, TwoSockets::create(options.seed));
    YONDER_TRY(thread, bed->add_thread(path.thread_socket, path.nic));
    std::unique_ptr<remote::SocketProxy> proxy;
    if (path.by_proxy) {
      YONDER_TRY(helper, bed->add_thread(path.memory_socket, path.memory_socket));
      proxy = std::make_unique<remote::SocketProxy>(bed->port(*helper));
      bed->scheduler().spawn(proxy->serve());
    }
    remote::RouterOptions router_options{.socket = path.thread_socket};
    if (proxy) router_options.proxies = {nullptr, proxy.get()};
    remote::NumaRouter router(bed->port(*thread), router_options);
    const Duration duration = std::chrono::milliseconds(options.quick ? 1 : 4);
    YONDER_TRY(mops, measure_path(*bed, router, path, op, outstanding, duration));
    if (outstanding == 1) figures.latency_us = 1 / mops;
    if (outstanding != 1) figures.mops = mops;
    if (proxy) proxy->stop();
    YONDER_TRY_VOID(bed->scheduler().run(Deadline::after(bed->clock(), std::chrono::seconds(1))));
  }
  return figures;
}

// The thread is on socket 1 in the best case; all memory that is wanted is named by its
// place relative to NIC 1.
constexpr Path kPaths[] = {
    {"best", 1, 1, 1, false},        // all on one socket
    {"far_memory", 1, 1, 0, false},  // the target's memory on the other
    {"far_thread", 0, 1, 1, false},  // our thread on the other
    {"worst", 0, 1, 0, false},       // both
    {"proxied", 0, 0, 1, true},      // handed to the matching socket
};

Result<void> add_simulated(const Options& options, Report& report) {
  for (const auto& [op, name] : {std::pair(fabric::Op::kWrite, ""), std::pair(fabric::Op::kRead, "_read")}) {
    Figures best;
    for (const Path& path : kPaths) {
      YONDER_TRY(figures, figures_of(path, op, options));
      if (&path == &kPaths[0]) best = figures;
      report.result(fmt::format("{}_latency_us{}", path.name, name), figures.latency_us);
      report.result(fmt::format("{}_mops{}", path.name, name), figures.mops);
      if (&path == &kPaths[0]) continue;
      report.ratio(fmt::format("{}_vs_best_latency{}", path.name, name), figures.latency_us / best.latency_us,
                   0);
      report.ratio(fmt::format("{}_vs_best_tput{}", path.name, name), figures.mops / best.mops, 0);
    }
  }
  return {};
}

fabric::Task<void> repeat_directly(const remote::Port& port, fabric::WorkRequest request, Meter& meter) {
  while (meter.goes_on()) {
    const Result<fabric::Completion> done = co_await port.async_perform(request);
    meter.count(done.has_value());
  }
}

// With one socket the router must cost nothing.
Result<void> add_real(const std::string& provider, const std::string& prefix, const Options& options,
                      Report& report) {
  YONDER_TRY(rig, Rig::create({.provider = provider}));
  const remote::Port port = rig->lane().port();
  remote::NumaRouter router(port, {});
  const fabric::LocalPiece piece = rig->lane().piece(0, kBytes);
  const fabric::WorkRequest request{
      .op = fabric::Op::kWrite, .local = {&piece, 1}, .remote = rig->token().at(0)};
  std::vector<double> ratios;
  for (int round = 0; round < (options.quick ? 9 : 21); ++round) {
    YONDER_TRY(routed, measure_mops(*rig, measure_for(*rig, options.quick), [&](std::size_t, Meter& meter) {
                 return repeat(router, 0, request, meter);
               }));
    YONDER_TRY(direct, measure_mops(*rig, measure_for(*rig, options.quick), [&](std::size_t, Meter& meter) {
                 return repeat_directly(port, request, meter);
               }));
    ratios.push_back(routed / direct);
  }
  report.ratio(prefix + "routed_vs_direct_tput", ratios);
  return {};
}

}  // namespace

Result<void> run_numa_bench(const Options& options, Report& report) {
  report.param("bytes", kBytes);
  return for_providers(options, report, {"sim", "shm", "tcp"}, [&](const std::string& provider) {
    if (provider == "sim") return add_simulated(options, report);
    return add_real(provider, key_prefix(options, provider), options, report);
  });
}

}  // namespace yonder::bench
