#pragma once
// What all parts of one open verbs fabric share.
//
// Concurrency: each member says for itself. Lifetime: owned by the fabric, which
// outlives everything that refers to it. Destroyed in reverse: the service
// thread stops first.

#include <atomic>
#include <cstdint>
#include <memory>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/verbs/internal/bounce_pool.h"
#include "yonder/fabric/verbs/internal/cm_service.h"
#include "yonder/fabric/verbs/internal/device.h"
#include "yonder/fabric/verbs/internal/region_table.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::verbs {

struct Core {
  Core(std::shared_ptr<Device> opened, std::size_t bounce_bytes, std::uint64_t process_id)
      : device(std::move(opened)), pool(device, bounce_bytes), process(process_id) {}

  EndpointId next_endpoint_id() {
    // relaxed: only uniqueness matters.
    return EndpointId{last_endpoint.fetch_add(1, std::memory_order_relaxed) + 1};
  }
  Hello hello(const Identity& identity) const {
    Hello out;
    out.identity = identity;
    out.process = process;
    return out;
  }

  const std::shared_ptr<Device> device;
  RegionTable regions;
  BouncePool pool;
  const std::uint64_t process;  // Random.
  os::SteadyClock clock;
  std::atomic<std::uint64_t> epoch{0};  // Only grows.
  std::atomic<std::uint64_t> last_endpoint{0};
  std::unique_ptr<CmService> service;
};

}  // namespace yonder::fabric::verbs
