#include "bench/fabric/sim_bench.h"

#include <time.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/heap_counter.h"
#include "yonder/base/prng.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/fabric/task.h"

namespace yonder::bench {
namespace {

using fabric::CompletionQueue;
using fabric::Endpoint;
using fabric::LocalPiece;
using fabric::Region;
using fabric::RegionToken;
using fabric::Scheduler;
using fabric::Task;

constexpr std::size_t kRegionBytes = std::size_t{1} << 20;

double cpu_seconds() {
  timespec ts{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) * 1e-9;
}

struct Target {
  std::vector<std::byte> memory;
  Region region;
  std::unique_ptr<fabric::Listener> listener;
};

struct Client {
  std::unique_ptr<CompletionQueue> queue;  // A thread of its own.
  std::unique_ptr<Endpoint> endpoint;
  RegionToken token;
  std::vector<std::byte> buffer;
  Prng random{0};
};

// What all clients share: how many operations are still to do, and the heap
// allocations between two of them, when all tasks are there and none has ended.
struct Budget {
  explicit Budget(std::uint64_t operations) : left(operations), settled(operations / 10 * 9) {}

  void take() {
    --left;
    if (left == settled) before = HeapCounter::allocations();
    if (left == 0) after = HeapCounter::allocations();
  }

  std::uint64_t left;
  const std::uint64_t settled;
  std::uint64_t failed = 0;
  std::uint64_t before = 0;
  std::uint64_t after = 0;
};

// 70 % reads, 20 % writes, 10 % fetch-and-adds.
Task<void> run_client(Client& client, Budget& budget) {
  const LocalPiece piece = LocalPiece::of(std::span(client.buffer));
  const std::uint64_t slots = kRegionBytes / client.buffer.size();
  while (budget.left > 0) {
    budget.take();
    const auto where = client.token.at(client.random.below(slots) * client.buffer.size());
    const std::uint64_t kind = client.random.below(10);
    bool ok = false;
    if (kind < 7) {
      ok = (co_await client.endpoint->read(piece, where)).has_value();
    } else if (kind < 9) {
      ok = (co_await client.endpoint->write(piece, where)).has_value();
    } else {
      ok = (co_await client.endpoint->fetch_add(where, 1)).has_value();
    }
    if (!ok) ++budget.failed;
  }
}

class Cluster {
 public:
  static Result<std::unique_ptr<Cluster>> create(const SimSpeedOptions& options) {
    auto cluster = std::unique_ptr<Cluster>(new Cluster(options));
    YONDER_TRY_VOID(cluster->start_targets());
    YONDER_TRY_VOID(cluster->connect_clients());
    return cluster;
  }

  // All clients until `operations` are done; returns the heap allocations of the
  // last nine tenths of them.
  Result<std::uint64_t> run(std::uint64_t operations) {
    Budget budget(operations);
    Scheduler scheduler(*clients_.front().queue);
    for (Client& client : clients_) scheduler.spawn(run_client(client, budget));
    YONDER_TRY_VOID(scheduler.run(Deadline::never()));
    if (budget.failed > 0) return fail(ErrorCode::kCorrupt, "simulated operations failed");
    return budget.after - budget.before;
  }

  fabric::sim::World& world() { return world_; }

 private:
  explicit Cluster(const SimSpeedOptions& options)
      : options_(options), world_({.seed = options.seed, .hosts = options.targets + options.client_hosts}) {}

  Result<void> start_targets() {
    for (std::uint32_t i = 0; i < options_.targets; ++i) {
      Target target{.memory = std::vector<std::byte>(kRegionBytes)};
      fabric::Fabric& fabric = world_.host(i).fabric();
      YONDER_TRY(region, fabric.register_memory({.memory = target.memory, .rights = fabric::Rights::kAll}));
      YONDER_TRY(listener, fabric.listen({.address = "sim://:7400", .passive = true}));
      target.region = std::move(region);
      target.listener = std::move(listener);
      targets_.push_back(std::move(target));
    }
    return {};
  }

  Result<void> connect_clients() {
    for (std::uint32_t i = 0; i < options_.clients; ++i) {
      fabric::Fabric& fabric = world_.host(options_.targets + i % options_.client_hosts).fabric();
      const std::uint32_t target = i % options_.targets;
      Client client;
      YONDER_TRY(queue, fabric.create_completion_queue({.capacity = 64}));
      YONDER_TRY(endpoint, fabric.connect({.address = "sim://host" + std::to_string(target) + ":7400",
                                           .endpoint = {.depth = 4, .receive_depth = 4}},
                                          *queue));
      client.queue = std::move(queue);
      client.endpoint = std::move(endpoint);
      client.token = targets_[target].region.token();
      client.buffer.resize(options_.bytes);
      client.random = Prng(options_.seed + i);
      clients_.push_back(std::move(client));
    }
    return {};
  }

  const SimSpeedOptions options_;
  fabric::sim::World world_;
  std::vector<Target> targets_;
  std::vector<Client> clients_;
};

}  // namespace

Result<SimSpeed> measure_sim_speed(const SimSpeedOptions& options) {
  YONDER_TRY(cluster, Cluster::create(options));
  YONDER_TRY_VOID(cluster->run(options.operations / 10));
  fabric::sim::World& world = cluster->world();
  const std::uint64_t events = world.events_run();
  const Instant begin = world.clock().now();
  const double cpu = cpu_seconds();
  YONDER_TRY(allocations, cluster->run(options.operations));
  const double used = cpu_seconds() - cpu;
  const auto operations = static_cast<double>(options.operations);
  return SimSpeed{.operations = options.operations,
                  .operations_per_cpu_second = operations / used,
                  .events_per_operation = static_cast<double>(world.events_run() - events) / operations,

                  .allocations_per_operation = static_cast<double>(allocations) / (0.9 * operations),
                  .virtual_seconds = static_cast<double>((world.clock().now() - begin).count()) * 1e-9,
                  .trace_hash = world.trace_hash()};
}

}  // namespace yonder::bench
