#pragma once
// The admin endpoint of rcached: HTTP on a port of its own, for monitors.
//
//   GET /metrics   Prometheus text
//   GET /health    200 while it serves, 503 while it stops
// and, in a cluster:
//   GET  /api/v1/partitions                    the map, and what is on its way
//   POST /api/v1/migrate?partition=N&to=SERVER moves a partition of this server; answers when it is done
//   POST /api/v1/drain                         moves all of them away
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
