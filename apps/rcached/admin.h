#pragma once
// The admin endpoint of rcached: HTTP on a port of its own, for monitors.
//
//   GET /metrics   Prometheus text
//   GET /health    200 while it serves, 503 while it stops
// and, in a cluster:
//   GET  /api/v1/partitions                     the map, and what is on its way
//   GET  /api/v1/jobs                           moves that were asked for: state, bytes left, error
//   POST /api/v1/migrate?partition=N&to=SERVER  moves a partition, whoever owns it; answers when it is
//                                               done, or with &wait=0 at once, with the job's number
//   POST /api/v1/jobs/N/cancel, …/rollback      takes back a job that has not begun, or one that is done
//   POST /api/v1/pause, /api/v1/resume          jobs that have not begun wait, or not
//   GET  /api/v1/rebalance                      what a balancer would move; POST: and moves it
//   POST /api/v1/drain                          moves all partitions of this server away
//
// It has no authentication: give it an address of the loopback.
//
// Concurrency, Lifetime: AdminEndpoint's; service, server and cluster outlive it.

#include <memory>
#include <string>

#include "apps/common/admin_endpoint.h"
#include "yonder/base/result.h"
#include "yonder/cache/cluster.h"
#include "yonder/cache/server.h"
#include "yonder/cache/service.h"

namespace yonder::apps {

// Listens on `place` (host:port; port 0: one that is free) and serves. `cluster` may be
// null. Errors: those of AdminEndpoint::listen.
Result<std::unique_ptr<AdminEndpoint>> open_cache_admin(const std::string& place, cache::Service& service,
                                                        cache::Server& server, cache::Cluster* cluster);

}  // namespace yonder::apps
