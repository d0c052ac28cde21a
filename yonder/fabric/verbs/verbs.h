#pragma once
// RDMA through libibverbs and librdmacm: reliable queue pairs, one per endpoint.
//
// Both libraries are loaded when the fabric is opened, so that one binary runs
// on hosts with and without RDMA. Addresses are verbs://ip:port or verbs://*:port
// (listening, on the device's own address); the option device=NAME names the
// RDMA device where a host has several.
//
// What differs from the other providers, because a NIC decides it:
//   - A refused access breaks the queue pair in hardware. The endpoint makes a
//     new one, asks the target for the reason, and repeats what was posted after
//     the refused request; the application only sees one failed request, after
//     some milliseconds.
//   - A passed deadline breaks the connection: only a destroyed queue pair
//     proves that a late answer cannot land in the caller's buffer (E3).
//   - Tenants are not enforced (Capabilities::enforces_tenants): register_memory
//     refuses a region for one tenant with kUnsupported.
//   - Atomics are done by the NIC, and are atomic among themselves only.
//
// Concurrency and lifetime: as fabric.h says.

#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"

namespace yonder::fabric::verbs {

struct Options {
  // The RDMA device, as `ibv_devices` prints it; empty: the first one that is up
  // and has an IP address of this host.
  std::string device;
  // Registered memory for transfers whose local buffers are not registered; such
  // a request fails with kResourceExhausted while all of it is in use.
  std::size_t bounce_bytes = std::size_t{64} << 20;
};

// kProviderUnavailable: a library (the message names its Debian package) or an
// RDMA device is missing. kResourceExhausted, kOutOfMemory.
Result<std::unique_ptr<Fabric>> open(const Options& options = {});

}  // namespace yonder::fabric::verbs
