#pragma once
// PartitionRegistry: which segment holds which partition, and where its owner serves.
//
// It stands beside the directory of segments, in the same process and behind the same rpc
// server. The directory is the truth about owners; the registry adds what it does not
// know: that segment 40 is partition 17, and that process 3 serves clients at host:port.
//
//   partition   claim(segment)                         view()
//   unclaimed   taken                                  no segment, no owner
//   claimed     refused while the segment is alive     the segment's owner and epoch
//   lost        taken: its old content is gone         no owner
//
// Concurrency: any thread. Lifetime: the directory outlives it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/cache/balance_plan.h"
#include "yonder/cache/move_orders.h"
#include "yonder/fabric/fabric.h"
#include "yonder/rpc/server.h"
#include "yonder/segment/directory.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {

struct PartitionPlace {
  std::uint32_t partition = 0;
  segment::SegmentId segment;  // 0: nobody has claimed it
  segment::ProcessId owner;    // 0: nobody, or it is lost
  Epoch epoch;
  std::string server;  // where the owner serves clients; empty if it has not said
};

// How much a partition is used, as its owner counts.
struct LoadReport {
  std::uint32_t partition = 0;
  std::uint64_t operations = 0;  // since it came to its owner
  std::uint64_t bytes = 0;
};

// How far a partition that moves has arrived, as its new owner sees it.
struct ArrivalReport {
  std::uint32_t partition = 0;
  std::uint64_t bytes_left = 0;      // 0: all is there
  ErrorCode error = ErrorCode::kOk;  // else some of it never will be
};

class Registry {
 public:
  static constexpr std::size_t kMaxAddress = 128;

  virtual ~Registry() = default;
  virtual Result<std::uint32_t> partitions(Deadline deadline) = 0;
  // This process serves clients at `server`. kInvalidArgument.
  virtual Result<void> announce(segment::ProcessId process, const std::string& server, Deadline deadline) = 0;
  // kAlreadyExists: somebody has it; kOutOfBounds.
  virtual Result<void> claim(std::uint32_t partition, segment::SegmentId segment, Deadline deadline) = 0;
  // Partitions from `from` on, as many as fit an answer.
  virtual Result<std::vector<PartitionPlace>> view(std::uint32_t from, Deadline deadline) = 0;
  // Every process that serves clients.
  virtual Result<std::vector<PartitionPlace>> servers(Deadline deadline) = 0;

  // Moves that are asked for anywhere and made by the owner (move_orders.h). order():
  // kNotFound (no such server, or nobody owns the partition), kOutOfBounds.
  virtual Result<std::uint64_t> order(std::uint32_t partition, segment::ProcessId to, Deadline deadline) = 0;
  virtual Result<std::optional<MoveOrder>> take_order(segment::ProcessId owner, Deadline deadline) = 0;
  virtual Result<void> finish_order(std::uint64_t id, ErrorCode error, Deadline deadline) = 0;
  virtual Result<void> cancel_order(std::uint64_t id, Deadline deadline) = 0;
  virtual Result<void> pause_orders(bool paused, Deadline deadline) = 0;
  virtual Result<std::vector<MoveOrder>> orders(Deadline deadline) = 0;
  virtual Result<void> report_arrivals(segment::ProcessId target, const std::vector<ArrivalReport>& arrivals,
                                       Deadline deadline) = 0;

  // What a balancer needs to know, and what it would do (balance_plan.h).
  virtual Result<void> report(const std::vector<LoadReport>& loads, Deadline deadline) = 0;
  virtual Result<std::vector<PlannedMove>> plan(Deadline deadline) = 0;
};

class PartitionRegistry final : public Registry {
 public:
  PartitionRegistry(segment::Directory& directory, const Clock& clock, std::uint32_t partitions)
      : directory_(directory), clock_(clock), segments_(partitions), loads_(partitions) {}

  Result<std::uint32_t> partitions(Deadline deadline) override;
  Result<void> announce(segment::ProcessId process, const std::string& server, Deadline deadline) override;
  Result<void> claim(std::uint32_t partition, segment::SegmentId segment, Deadline deadline) override;
  Result<std::vector<PartitionPlace>> view(std::uint32_t from, Deadline deadline) override;
  Result<std::vector<PartitionPlace>> servers(Deadline deadline) override;
  Result<std::uint64_t> order(std::uint32_t partition, segment::ProcessId to, Deadline deadline) override;
  Result<std::optional<MoveOrder>> take_order(segment::ProcessId owner, Deadline deadline) override;
  Result<void> finish_order(std::uint64_t id, ErrorCode error, Deadline deadline) override;
  Result<void> cancel_order(std::uint64_t id, Deadline deadline) override;
  Result<void> pause_orders(bool paused, Deadline deadline) override;
  Result<std::vector<MoveOrder>> orders(Deadline deadline) override;
  Result<void> report_arrivals(segment::ProcessId target, const std::vector<ArrivalReport>& arrivals,
                               Deadline deadline) override;
  Result<void> report(const std::vector<LoadReport>& loads, Deadline deadline) override;
  Result<std::vector<PlannedMove>> plan(Deadline deadline) override;

 private:
  struct Load {
    LoadReport last;
    Instant at;
    double operations_per_second = 0;  // smoothed over a few reports
  };
  // Whether a segment still has an owner.
  bool is_alive(segment::SegmentId segment, Deadline deadline);
  // Orders of the dead must not keep their partitions from being ordered again.
  void abandon_orders(Deadline deadline);

  segment::Directory& directory_;
  const Clock& clock_;
  MoveOrders orders_;
  sync::Mutex mutex_;
  std::vector<segment::SegmentId> segments_ YONDER_GUARDED_BY(mutex_);
  std::unordered_map<segment::ProcessId, std::string> servers_ YONDER_GUARDED_BY(mutex_);
  std::vector<Load> loads_ YONDER_GUARDED_BY(mutex_);
};

// Adds the methods of a registry to a server.
void serve_registry(rpc::Server& server, Registry& registry);
// Asks one over rpc. Errors of rpc::Client::connect.
Result<std::unique_ptr<Registry>> connect_registry(fabric::Fabric& fabric, const std::string& address);

}  // namespace yonder::cache
