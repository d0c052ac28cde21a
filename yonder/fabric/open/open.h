#pragma once
// Opens a fabric by the name of its provider.
//
//   auto fabric = fabric::open("shm:");
//   auto fabric = fabric::open("tcp://0.0.0.0:7400?tls=on&cert=…");   // as a listener will be told
//
// Programs that know their provider can include it directly; those that take an
// address from a user come here. `sim` is not opened by an address: it is made
// from a sim::World, which has the seed and the topology.
//
// Concurrency: any thread.

#include <memory>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"

namespace yonder::fabric {

// kAddressInvalid, kProviderUnavailable (library or device missing), and what the
// provider's own open() returns.
Result<std::unique_ptr<Fabric>> open(std::string_view address);

// The providers of this build, and for each whether it can run on this machine.
struct ProviderStatus {
  std::string_view name;
  Result<void> usable;
};
std::vector<ProviderStatus> probe_providers();

}  // namespace yonder::fabric
