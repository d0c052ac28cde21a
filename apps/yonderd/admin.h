#pragma once
// The admin endpoint of a node: HTTP on a port of its own, for people and monitors.
//
//   GET  /metrics             Prometheus text
//   GET  /health              200 while the node serves, 503 while it stops
//   GET  /api/v1/blocks       memory and block ids
//   GET  /api/v1/classes      every size class that has frames or had objects
//   GET  /api/v1/compaction   policy, counters, what a run would free now
//   POST /api/v1/compaction   compacts now what is worth it
//
// It has no authentication: it listens on the loopback unless the configuration
// says otherwise.
//
// Concurrency: create() and the destructor by one thread; handlers run on threads of
// its own. Lifetime: node and registry outlive it.

#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/node/server.h"
#include "yonder/telemetry/counters.h"

namespace yonder::apps {

class Admin {
 public:
  // Listens on `place` (host:port; port 0: one that is free) and serves.
  // kAddressInvalid; kAlreadyExists if the port is taken.
  static Result<std::unique_ptr<Admin>> create(const std::string& place, node::Server& node,
                                               telemetry::Registry& registry);
  ~Admin();
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  // "http://127.0.0.1:7480"
  std::string address() const;
  // From now on /health says that the node is stopping.
  void begin_stop();

 private:
  struct State;
  explicit Admin(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace yonder::apps
