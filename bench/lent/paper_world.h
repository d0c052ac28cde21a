#pragma once
// The cluster of paper 002: eight machines with two sockets and a NIC port at each.
//
// Concurrency and lifetime: values.

#include <cstdint>

#include "yonder/fabric/sim/world.h"

namespace yonder::bench {

inline constexpr std::uint32_t kPaperMachines = 8;

inline fabric::sim::WorldOptions paper_world(std::uint64_t seed) {
  const fabric::sim::NicModel port = fabric::sim::connectx3_40g();
  return {.seed = seed,
          .hosts = kPaperMachines,
          .host = {.sockets = 2, .nics = {{.socket = 0, .model = port}, {.socket = 1, .model = port}}}};
}

}  // namespace yonder::bench
