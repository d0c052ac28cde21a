#pragma once
// A memory node and a session to it, for the benchmarks of the object API.
//
// The node's fabric and the client's are two: over shm they treat each other like
// two processes, and every byte takes the way it would take between them.
//
// Concurrency: one thread per session. Lifetime: sessions go before the bed.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "yonder/base/result.h"
#include "yonder/client/session.h"
#include "yonder/fabric/fabric.h"
#include "yonder/node/server.h"

namespace yonder::bench {

// CPU time of the calling thread: other programs of the machine do not count.
double thread_cpu_seconds();

class NodeBed {
 public:
  // `provider` is "shm", "tcp" or "verbs". `memory` is the node's limit.
  static Result<NodeBed> create(std::string_view provider, std::uint64_t memory,
                                node::Correction correction = node::Correction::kScan,
                                std::uint32_t pollers = 1);

  node::Server& server() { return *server_; }
  fabric::Fabric& fabric() { return *client_fabric_; }
  Result<std::unique_ptr<client::Session>> connect(client::SessionOptions options = {}) const;

 private:
  NodeBed() = default;
  std::unique_ptr<fabric::Fabric> server_fabric_;
  std::unique_ptr<fabric::Fabric> client_fabric_;
  std::unique_ptr<node::Server> server_;
};

}  // namespace yonder::bench
