#pragma once
// The admin endpoint of rcached: HTTP on a port of its own, for monitors.
//
//   GET /metrics   Prometheus text
//   GET /health    200 while it serves, 503 while it stops
// and, in a cluster:
//   GET  /api/v1/partitions                     the map, and what is on its way
//   GET  /api/v1/jobs                           moves that were asked for, and what became of them
//   POST /api/v1/migrate?partition=N&to=SERVER  moves a partition, whoever owns it; answers when it is
//                                               done, or with &wait=0 at once, with the job's number
//   POST /api/v1/jobs/N/cancel, …/rollback      takes back a job that has not begun, or one that is done
//   POST /api/v1/pause, /api/v1/resume          jobs that have not begun wait, or not
//   GET  /api/v1/rebalance                      what a balancer would move; POST: and moves it
//   POST /api/v1/drain                          moves all partitions of this server away
//
// It has no authentication: give it an address of the loopback.
//
// Concurrency: create() and the destructor by one thread. Lifetime: service and server
// outlive it.

#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/cache/cluster.h"
#include "yonder/cache/server.h"
#include "yonder/cache/service.h"

namespace yonder::apps {

class CacheAdmin {
 public:
  // Errors: kAddressInvalid (not host:port), kAlreadyExists (the port is taken).
  // `cluster` may be null; it outlives this, as the others do.
  static Result<std::unique_ptr<CacheAdmin>> create(const std::string& place, cache::Service& service,
                                                    cache::Server& server, cache::Cluster* cluster);
  ~CacheAdmin();
  CacheAdmin(const CacheAdmin&) = delete;
  CacheAdmin& operator=(const CacheAdmin&) = delete;

  std::string address() const;
  void begin_stop();

 private:
  struct State;
  explicit CacheAdmin(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace yonder::apps
