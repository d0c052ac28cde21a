#pragma once
// The cluster of paper 002 in the simulator: eight machines with two sockets and a NIC
// port at each, and executors that are one thread of such a machine.
//
// An executor that minds NUMA has thread, memory and port at one socket (section IV-C).
// One that does not gets a port and memory by its number alone: the two executors of a
// machine still have a port each, and over sixteen of them every combination of near
// and far occurs equally often.
//
// Concurrency: one thread drives all of it. Lifetime: executors go before the cluster.

#include <cstdint>
#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/fabric/task.h"

namespace yonder::bench {

class SimCluster {
 public:
  explicit SimCluster(std::uint64_t seed, bool numa_aware);

  // The fabric of executor `index`, placed so that what is made next is the executor's.
  fabric::Fabric& fabric_of(std::uint32_t index);
  // Where a receiver of this executor listens.
  std::string address_of(std::uint32_t index) const;
  const Clock& clock() const { return world_.clock(); }
  fabric::sim::World& world() { return world_; }

 private:
  fabric::sim::Placement placement_of(std::uint32_t index) const;

  fabric::sim::World world_;
  const bool numa_aware_;
};

// The time of a simulated thread that computes: what one task of it takes, the others
// wait for. Computing does not advance virtual time by itself.
class SimThread {
 public:
  SimThread(fabric::CompletionQueue& queue, fabric::Scheduler& scheduler)
      : queue_(queue), scheduler_(scheduler) {}

  fabric::Task<void> compute(Duration duration);

 private:
  fabric::CompletionQueue& queue_;
  fabric::Scheduler& scheduler_;
  Instant busy_until_;
};

}  // namespace yonder::bench
