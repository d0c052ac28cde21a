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
// Concurrency, Lifetime: AdminEndpoint's; node and registry outlive it.

#include <memory>
#include <string>

#include "apps/common/admin_endpoint.h"
#include "yonder/base/result.h"
#include "yonder/node/server.h"
#include "yonder/telemetry/counters.h"

namespace yonder::apps {

// Listens on `place` (host:port; port 0: one that is free) and serves.
// Errors: those of AdminEndpoint::listen.
Result<std::unique_ptr<AdminEndpoint>> open_node_admin(const std::string& place, node::Server& node,
                                                       telemetry::Registry& registry);

}  // namespace yonder::apps
