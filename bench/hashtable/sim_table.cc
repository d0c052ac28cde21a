#include "bench/hashtable/sim_table.h"

#include <memory>
#include <span>
#include <vector>

#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/structures/hash_table.h"

namespace yonder::bench {
namespace {

using structures::HashTable;

constexpr std::uint32_t kMachines = 8;
constexpr std::uint64_t kTableBytes = std::uint64_t{64} << 20;

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

class Cluster {
 public:
  explicit Cluster(const SimTableOptions& options)
      : options_(options),
        world_({.seed = options.seed,
                .hosts = kMachines,
                .host = {.sockets = 2,
                         .nics = {{.socket = 0, .model = fabric::sim::connectx3_40g()},
                                  {.socket = 1, .model = fabric::sim::connectx3_40g()}}}}),
        keys_({.items = options.keys}),
        random_(options.seed) {}
  ~Cluster() {
    tables_.clear();
    for (auto& endpoint : endpoints_) endpoint->close();
    scheduler_.reset();
  }

  Result<double> measure() {
    YONDER_TRY_VOID(lend());
    for (std::uint32_t i = 0; i < options_.front_ends; ++i) YONDER_TRY_VOID(add_front_end(i));
    YONDER_TRY_VOID(fill());
    // Front ends find out which keys are hot, as the paper's do before it measures.
    YONDER_TRY_VOID(run(options_.warm_up));
    written_ = 0;
    const Instant begin = world_.clock().now();
    YONDER_TRY_VOID(run(options_.duration));
    const Duration elapsed = world_.clock().now() - begin;
    for (auto& table : tables_) YONDER_TRY_VOID(table->flush());
    return static_cast<double>(written_) * 1e3 / static_cast<double>(elapsed.count());
  }

 private:
  Result<void> run(Duration duration) {
    until_ = world_.clock().now() + duration;
    for (auto& table : tables_) {
      for (std::uint32_t i = 0; i < options_.requests; ++i) scheduler_->spawn(write(*table));
    }
    YONDER_TRY_VOID(scheduler_->run(Deadline::after(world_.clock(), 20 * duration)));
    return failed_;
  }

  // Half of the table's traffic through each port, memory at the first socket.
  Result<void> lend() {
    memory_.resize(kTableBytes / 8);
    fabric::Fabric& fabric = world_.host(0).fabric();
    YONDER_TRY(region, fabric.register_memory({.memory = std::as_writable_bytes(std::span(memory_)),
                                               .rights = fabric::Rights::kAll}));
    region_ = std::move(region);
    YONDER_TRY(listener, fabric.listen({.address = "sim://host0:7400", .passive = true}));
    listener_ = std::move(listener);
    return {};
  }

  // A front end that minds has thread, memory and port at the port's socket.
  Result<void> add_front_end(std::uint32_t index) {
    fabric::sim::Host& host = world_.host(1 + index % (kMachines - 1));
    const std::uint32_t socket = options_.numa_aware ? 0 : index / (kMachines - 1) % 2 == 0 ? 1 : 0;
    host.place({.socket = socket, .memory_socket = socket, .nic = 0});
    YONDER_TRY(queue, host.fabric().create_completion_queue({}));
    queues_.push_back(std::move(queue));
    if (scheduler_ == nullptr) scheduler_ = std::make_unique<fabric::Scheduler>(*queues_.back());
    YONDER_TRY(endpoint, host.fabric().connect({.address = "sim://host0:7400"}, *queues_.back()));
    endpoints_.push_back(std::move(endpoint));
    const remote::Port port(*endpoints_.back(), *scheduler_);
    if (index == 0) {
      YONDER_TRY_VOID(HashTable::create(port, region_.token(), {.log2_buckets = 13, .hash_seed = 7}));
    }
    YONDER_TRY(table, HashTable::open(host.fabric(), port, region_.token(),
                                      {.consolidate = options_.consolidate,
                                       .together = options_.together,
                                       .write_back = options_.write_back}));
    tables_.push_back(std::move(table));
    return {};
  }

  Result<void> fill() {
    const std::vector<std::byte> value(options_.value_bytes);
    for (std::uint64_t key = 0; key < options_.keys; ++key) {
      YONDER_TRY_VOID(tables_[key % tables_.size()]->put(bytes_of(key), value));
    }
    return {};
  }

  fabric::Task<void> write(HashTable& table) {
    std::vector<std::byte> value(options_.value_bytes);
    while (world_.clock().now() < until_) {
      const std::uint64_t key = keys_.next(random_);
      const auto put = co_await table.async_put(bytes_of(key), value);
      if (!put) {
        failed_ = std::unexpected(put.error());
        co_return;
      }
      ++written_;
    }
  }

  const SimTableOptions options_;
  fabric::sim::World world_;
  const Zipfian keys_;
  Prng random_;
  std::vector<std::uint64_t> memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  std::vector<std::unique_ptr<fabric::CompletionQueue>> queues_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::vector<std::unique_ptr<fabric::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<HashTable>> tables_;
  Instant until_;
  std::uint64_t written_ = 0;
  Result<void> failed_;
};

}  // namespace

Result<double> measure_sim_table(const SimTableOptions& options) { return Cluster(options).measure(); }

}  // namespace yonder::bench
