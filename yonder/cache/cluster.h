#pragma once
// Cluster: a server's part in a group of servers that share the partitions.
//
//   first server:  Cluster::join(store, {.serve_at = "tcp://127.0.0.1:7500", .server = "10.0.0.1:11211"})
//   the others:    Cluster::join(store, {.directory = "tcp://10.0.0.1:7500", .server = "10.0.0.2:11211"})
//   later:         cluster->migrate(17, "10.0.0.2:11211");
//
// Each partition is a segment (segment/agent.h). The first server has the directory and
// takes every partition that nobody has, also those of a server that died, which are empty
// then: a cache may forget, but it must not have two owners for a key. A migration takes
// the partition out of the store (requests for it are forwarded from then on), transfers
// the segment, and the target puts it into its store and serves it while its pages arrive.
//
//   migration of a local partition   on the source                  on the target
//   connect                          serves                         makes room
//   transfer: all are awake          detached: forwards             "not owner": asked again
//             fence, commit          forwards                       attached: serves
//   connect or transfer refused      attached again: serves         –
//
// A target whose source dies before all pages have arrived drops the partition (the
// touch of a lost page ends in Store's recovery, not in the process's end) and makes an
// empty one; with keep_until_complete it goes on with a copy.
//
// Concurrency: migrate() and the rest from any thread; one migration of a partition at a
// time. Lifetime: the store outlives it, and must not be used when it is destroyed.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/cache/cluster_key.h"
#include "yonder/cache/partition_registry.h"
#include "yonder/cache/store.h"

namespace yonder::cache {

struct ClusterOptions {
  // Where the directory is, or, if empty, where this process serves it.
  std::string directory;
  std::string serve_at;
  // Where this process's agent listens: "tcp://HOST:0" or "shm:". The same provider for all.
  std::string agent = "tcp://127.0.0.1:0";
  // Where other servers forward commands to: this server's host:port for clients.
  std::string server;
  // Null: none. Else all addresses are tcp:// ones without TLS options; every connection between
  // servers proves the key. The server's own peers need it, too (PeersOptions::tls).
  std::shared_ptr<const ClusterKey> key;
  // Address space of a partition; memory is used as items need it.
  Bytes partition_bytes = 1_GiB;
  // At most so much of what comes here is fetched ahead of use, per partition; what clients
  // ask for is fetched at once. 0: as fast as it goes.
  std::uint64_t pull_bytes_per_second = 0;
  // How often the map is looked at.
  Duration refresh = std::chrono::milliseconds(50);
  Duration timeout = std::chrono::seconds(5);
  // Whether a third server, if there is one, keeps a copy of a partition that leaves until all
  // of it has arrived (segment::ConnectOptions): then a source that dies takes nothing with
  // it. The partition pauses for as long as the copy takes, about a millisecond per 2 MiB.
  bool keep_until_complete = false;
  // The first server's say: who is not heard of for so long is dead, and its partitions
  // are made anew, empty.
  Duration lease = std::chrono::seconds(3);
  // The first server's say: whether loads are balanced without being asked, and how often
  // that is looked at. Long enough for a move to show in the loads.
  bool balance = false;
  Duration balance_every = std::chrono::seconds(5);
};

class Cluster {
 public:
  // Returns when the map is known and, on the first server, all partitions are there.
  // The store must have been made with own_all = false. kInvalidArgument: it has another
  // number of partitions than the cluster, or addresses and key do not go together. Errors of fabric,
  // directory and agent.
  static Result<std::unique_ptr<Cluster>> join(Store& store, const ClusterOptions& options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Where the directory is served, for others to join.
  std::string directory_address() const;

  // Asks for a move of any partition to the server that serves clients at `server`; the
  // owner makes it. The job's number. kNotFound, kOutOfBounds, kAlreadyExists (it is
  // there, or moving).
  Result<std::uint64_t> order(std::uint32_t partition, const std::string& server);
  // All that were asked for lately, with their servers' names and the bytes that are left.
  struct Job {
    MoveOrder order;
    std::string from;
    std::string to;
  };
  Result<std::vector<Job>> jobs();
  // kNotFound; kAlreadyExists: it runs or has ended.
  Result<void> cancel(std::uint64_t job);
  // Asks for the move back of a job whose partition has moved. The new job's number.
  Result<std::uint64_t> roll_back(std::uint64_t job);
  // Jobs that have not begun wait.
  Result<void> pause(bool paused);
  // What a balancer would move now; apply: and orders it.
  Result<std::vector<Job>> rebalance(bool apply);

  // Moves a partition of this server to the one that serves clients at `server`. Returns
  // when that is its owner; its pages may still be arriving there. kNotOwner: it is not
  // here; kNotFound: no such server; errors of segment::Agent: it is here as before.
  Result<void> migrate(std::uint32_t partition, const std::string& server, Deadline deadline = {});
  // Moves all partitions away, to the others in turn: before this server ends.
  Result<void> drain(Deadline deadline);

  // Where the servers of the cluster serve clients, also those that own nothing.
  Result<std::vector<std::string>> servers();
  // The map as this server knows it.
  std::vector<PartitionPlace> map() const;
  // Partitions whose bytes are still arriving here or leaving from here.
  struct Moving {
    std::uint32_t partition = 0;
    bool arriving = false;
    std::uint64_t bytes_left = 0;
  };
  std::vector<Moving> moving() const;

 private:
  class Core;
  explicit Cluster(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace yonder::cache
