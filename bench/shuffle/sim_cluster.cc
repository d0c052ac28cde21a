#include "bench/shuffle/sim_cluster.h"

#include <algorithm>

#include "bench/lent/paper_world.h"

namespace yonder::bench {

SimCluster::SimCluster(std::uint64_t seed, bool numa_aware)
    : world_(paper_world(seed)), numa_aware_(numa_aware) {}

fabric::sim::Placement SimCluster::placement_of(std::uint32_t index) const {
  // Executors go around the machines: 0–7 at the first socket of each, 8–15 at the second.
  const std::uint32_t socket = index / kPaperMachines % 2;
  if (numa_aware_) return {.socket = socket, .memory_socket = socket, .nic = socket};
  return {.socket = socket, .memory_socket = (socket + index / 2) % 2, .nic = (socket + index) % 2};
}

fabric::Fabric& SimCluster::fabric_of(std::uint32_t index) {
  fabric::sim::Host& host = world_.host(index % kPaperMachines);
  host.place(placement_of(index));
  return host.fabric();
}

std::string SimCluster::address_of(std::uint32_t index) const {
  return "sim://host" + std::to_string(index % kPaperMachines) + ":" + std::to_string(7500 + index) +
         "?nic=" + std::to_string(placement_of(index).nic);
}

fabric::Task<void> SimThread::compute(Duration duration) {
  fabric::sim::spend_cpu(queue_, duration);
  busy_until_ = std::max(busy_until_, queue_.clock().now()) + duration;
  co_await scheduler_.sleep_until(busy_until_);
}

}  // namespace yonder::bench
