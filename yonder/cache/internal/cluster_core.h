#pragma once
// Cluster::Core: what stands behind a Cluster (cluster.h).
//
//   cluster.cc        joining, the map, the thread that looks after it
//   cluster_moves.cc  partitions that leave and come
//   cluster_jobs.cc   moves that somebody asked for, loads, balance
//
// Concurrency: as Cluster. Lifetime: owned by it.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "yonder/cache/cluster.h"
#include "yonder/os/steady_clock.h"
#include "yonder/segment/agent.h"
#include "yonder/segment/arena.h"
#include "yonder/segment/local_directory.h"

namespace yonder::cache {

class Cluster::Core {
 public:
  Core(Store& store, const ClusterOptions& options) : store_(store), options_(options) {}
  ~Core();
  Result<void> start();

  std::string directory_address() const;
  Result<void> migrate(std::uint32_t partition, const std::string& server, Deadline deadline);
  Result<void> drain(Deadline deadline);
  std::vector<PartitionPlace> map() const;
  std::vector<Moving> moving() const;
  Result<std::uint64_t> order(std::uint32_t partition, const std::string& server);
  Result<std::vector<Job>> jobs();
  Result<void> cancel(std::uint64_t job) { return registry_->cancel_order(job, soon()); }
  Result<std::uint64_t> roll_back(std::uint64_t job);
  Result<void> pause(bool paused) { return registry_->pause_orders(paused, soon()); }
  Result<std::vector<Job>> rebalance(bool apply);
  Result<std::map<segment::ProcessId, std::string>> names();

 private:
  Deadline soon() const { return Deadline::after(clock_, options_.timeout); }
  Result<void> open_directory();
  Result<void> refresh();
  void apply(const PartitionPlace& place);
  // An empty partition here, where nobody has one.
  Result<void> make_partition(std::uint32_t partition);
  void take(const segment::Segment& segment);
  // Who may keep a copy of what goes to `target`; 0: there is nobody else.
  Result<segment::ProcessId> keeper_beside(segment::ProcessId target, Deadline deadline);
  // Until all bytes of what was given away have been read.
  Result<void> await_left(Deadline deadline);
  void drop_lost();
  void look_after(const std::stop_token& stop);
  void run_orders();
  void report_loads();
  void report_arrivals();
  void balance();
  Result<segment::ProcessId> process_of(const std::string& server, Deadline deadline);

  Store& store_;
  const ClusterOptions options_;
  const os::SteadyClock clock_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<segment::Arena> arena_;
  // The first server's; the others only ask.
  std::unique_ptr<segment::LocalDirectory> local_directory_;
  std::unique_ptr<PartitionRegistry> local_registry_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<segment::Directory> remote_directory_;
  std::unique_ptr<Registry> remote_registry_;
  segment::Directory* directory_ = nullptr;
  Registry* registry_ = nullptr;
  std::unique_ptr<segment::Agent> agent_;

  mutable sync::Mutex mutex_;
  std::vector<PartitionPlace> map_ YONDER_GUARDED_BY(mutex_);
  std::map<segment::SegmentId, std::uint32_t> partition_of_ YONDER_GUARDED_BY(mutex_);
  // Partitions that came and of which the registry has not heard that they are all here.
  std::set<std::uint32_t> arriving_ YONDER_GUARDED_BY(mutex_);
  std::jthread keeper_;  // Last: ends first.
};

}  // namespace yonder::cache
