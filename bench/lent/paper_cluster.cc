#include "bench/lent/paper_cluster.h"

#include <span>
#include <utility>

#include "bench/lent/paper_world.h"

namespace yonder::bench {

namespace {

constexpr const char* kAddress = "sim://host0:7400";

}  // namespace

PaperCluster::PaperCluster(std::uint64_t seed, std::uint64_t lent_bytes)
    : world_(paper_world(seed)), memory_(lent_bytes / 8) {}

Result<std::unique_ptr<PaperCluster>> PaperCluster::create(std::uint64_t seed, std::uint64_t lent_bytes) {
  std::unique_ptr<PaperCluster> cluster(new PaperCluster(seed, lent_bytes));
  fabric::Fabric& lender = cluster->world_.host(0).fabric();
  YONDER_TRY(region, lender.register_memory({.memory = std::as_writable_bytes(std::span(cluster->memory_)),
                                             .rights = fabric::Rights::kAll}));
  cluster->region_ = std::move(region);
  YONDER_TRY(listener, lender.listen({.address = kAddress, .passive = true}));
  cluster->listener_ = std::move(listener);
  return cluster;
}

PaperCluster::~PaperCluster() {
  for (auto& endpoint : endpoints_) endpoint->close();
}

Result<PaperCluster::Client> PaperCluster::add_client(bool numa_aware) {
  const auto index = static_cast<std::uint32_t>(endpoints_.size());
  fabric::sim::Host& host = world_.host(1 + index % (kPaperMachines - 1));
  const std::uint32_t socket = numa_aware ? 0 : 1;
  host.place({.socket = socket, .memory_socket = socket, .nic = 0});
  YONDER_TRY(queue, host.fabric().create_completion_queue({}));
  queues_.push_back(std::move(queue));
  if (scheduler_ == nullptr) scheduler_ = std::make_unique<fabric::Scheduler>(*queues_.back());
  YONDER_TRY(endpoint, host.fabric().connect({.address = kAddress}, *queues_.back()));
  endpoints_.push_back(std::move(endpoint));
  return Client{.fabric = &host.fabric(), .port = {*endpoints_.back(), *scheduler_}};
}

}  // namespace yonder::bench
