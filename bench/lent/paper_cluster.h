#pragma once
// The cluster of paper 002 in the simulator, with memory lent by the first of its eight
// machines: where the benchmarks of structures that live in remote memory run.
//
// Every machine has two sockets and a NIC port at each. Memory and port of the lender are
// at socket 0. Clients take turns on the other machines; one that minds NUMA has thread,
// memory and port at socket 0, one that does not has thread and memory at the other socket.
//
// Concurrency: one thread drives all of it. Lifetime: what uses a port goes before the cluster.

#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/remote/port.h"

namespace yonder::bench {

class PaperCluster {
 public:
  static Result<std::unique_ptr<PaperCluster>> create(std::uint64_t seed, std::uint64_t lent_bytes);
  ~PaperCluster();
  PaperCluster(const PaperCluster&) = delete;
  PaperCluster& operator=(const PaperCluster&) = delete;

  // Another client's way to the memory.
  struct Client {
    fabric::Fabric* fabric;
    remote::Port port;
  };
  Result<Client> add_client(bool numa_aware);

  fabric::RegionToken token() const { return region_.token(); }
  // Of all clients; there is one.
  fabric::Scheduler& scheduler() { return *scheduler_; }
  const Clock& clock() const { return world_.clock(); }

 private:
  PaperCluster(std::uint64_t seed, std::uint64_t lent_bytes);

  fabric::sim::World world_;
  std::vector<std::uint64_t> memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  std::vector<std::unique_ptr<fabric::CompletionQueue>> queues_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::vector<std::unique_ptr<fabric::Endpoint>> endpoints_;
};

}  // namespace yonder::bench
