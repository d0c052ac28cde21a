#pragma once
// The tcp provider: one-sided access and messages over any network.
//
//   auto fabric = tcp::open({});
//   auto listener = fabric->listen({.address = "tcp://0.0.0.0:7400", .passive = true});
//   …
//   auto endpoint = fabric->connect({.address = "tcp://host:7400"}, queue);
//
// Addresses: tcp://host:port, tcp://[v6]:port; port 0 lets the system choose
// (Listener::address() says what it chose). Options after '?':
//   tls=on&ca=FILE&cert=FILE&key=FILE     TLS 1.3, both sides show certificates
//   tls=on&psk=FILE&psk_identity=NAME     TLS 1.3, both sides know a key
// docs/fabric-tcp.md describes the protocol and the threads.
//
// Concurrency: any thread. Lifetime: as Fabric.

#include <cstdint>
#include <memory>
#include <optional>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"

namespace yonder::fabric::tcp {

struct Options {
  // Seeds the jitter of reconnects; 0: from the system.
  std::uint64_t seed = 0;
  // Keeps the service thread on this core. Where a polling application has a core
  // to itself, this keeps the scheduler from putting both on one.
  std::optional<unsigned> service_cpu;
  // How long a client may take from its first byte to its second stream.
  Duration handshake_timeout = std::chrono::seconds(5);
  // How long a peer may stop in the middle of a frame, or not take its answers.
  Duration stall_timeout = std::chrono::seconds(10);
};

// Starts the fabric's service thread. Errors: kResourceExhausted,
// kInvalidArgument (no such core).
Result<std::unique_ptr<Fabric>> open(const Options& options = {});

}  // namespace yonder::fabric::tcp
