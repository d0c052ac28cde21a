#pragma once
// CacheCluster: rcached servers, as processes, that share the partitions.
//
// Concurrency: one thread. Lifetime: the processes end with this.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/rcached/cache_process.h"
#include "bench/rcached/cpu_quota.h"
#include "yonder/base/result.h"
#include "yonder/os/address.h"

namespace httplib {
class Client;
}

namespace yonder::bench {

struct CacheClusterOptions {
  std::string program;  // rcached
  std::size_t servers = 4;
  std::size_t partitions = 128;
  std::size_t memory_mib = 1024;  // of each server
  unsigned threads = 1;           // of each server
  std::string fabric = "tcp";     // shm or tcp: how partitions move
};

class CacheCluster {
 public:
  // All partitions are the first server's. Errors: those of CacheProcess::start;
  // kDeadlineExceeded: a server does not join.
  static Result<std::unique_ptr<CacheCluster>> start(const CacheClusterOptions& options);
  ~CacheCluster();

  std::vector<os::SocketAddress> addresses() const;

  // The server of each partition, as the first server knows.
  Result<std::vector<std::size_t>> owners();
  // Asks for a move; its owner makes it. kCorrupt: the cluster refuses.
  Result<void> order(std::size_t partition, std::size_t to);
  // Returns when the server owns nothing and all its bytes have arrived elsewhere.
  Result<void> drain(std::size_t server);
  // From now on the threads that serve clients have no more than this of a core, those of each server
  // together. kUnsupported: this machine, or this user, cannot.
  Result<void> limit_serving(double share);
  // Whether bytes are still leaving a server, or arriving at it.
  Result<bool> is_moving(std::size_t server);

 private:
  struct Member {
    CacheProcess process;
    std::string place;  // host:port for clients
    std::unique_ptr<httplib::Client> admin;
  };
  CacheCluster() = default;

  std::vector<Member> members_;
  std::vector<CpuQuota> quotas_;  // One of each member, or none.
};

}  // namespace yonder::bench
