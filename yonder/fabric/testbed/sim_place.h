#pragma once
// Where a suite runs: two simulated hosts, in virtual time.
//
// Concurrency: the test's thread. Lifetime: outlives everything made on its fabrics.

#include <string>

#include "yonder/fabric/sim/world.h"
#include "yonder/fabric/testbed/place.h"

namespace yonder::fabric::testbed {

class SimPlace final : public Place {
 public:
  explicit SimPlace(const sim::NicModel& nic = sim::connectx3_40g())
      : world_({.seed = 42, .hosts = 2, .host = {.nics = {{.model = nic}}}}) {}

  Fabric& server_fabric() override { return world_.host(0).fabric(); }
  Fabric& client_fabric() override { return world_.host(1).fabric(); }
  std::string listen_address() override { return "sim://host0:0"; }

 private:
  sim::World world_;
};

}  // namespace yonder::fabric::testbed
