#include "yonder/cache/partition_registry.h"

#include <algorithm>
#include <utility>

#include "yonder/cache/internal/registry_protocol.h"

namespace yonder::cache {

using segment::ProcessId;
using segment::SegmentId;

namespace {

// A new rate counts for so much, the old one for the rest.
constexpr double kNewRate = 0.5;

}  // namespace

Result<std::uint32_t> PartitionRegistry::partitions(Deadline) {
  const sync::LockGuard lock(mutex_);
  return static_cast<std::uint32_t>(segments_.size());
}

Result<void> PartitionRegistry::announce(ProcessId process, const std::string& server, Deadline deadline) {
  YONDER_TRY_VOID(directory_.address_of(process, deadline));
  if (server.empty() || server.size() > kMaxAddress)
    return fail(ErrorCode::kInvalidArgument, "announce a server: its address has 1 to 128 characters");
  const sync::LockGuard lock(mutex_);
  servers_[process] = server;
  return {};
}

bool PartitionRegistry::is_alive(SegmentId segment, Deadline deadline) {
  const Result<segment::SegmentRecord> record = directory_.find(segment, deadline);
  return record && record->state != segment::SegmentState::kLost;
}

Result<void> PartitionRegistry::claim(std::uint32_t partition, SegmentId segment, Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  if (partition >= segments_.size())
    return fail(ErrorCode::kOutOfBounds, "claim a partition", static_cast<std::int64_t>(partition));
  SegmentId& holder = segments_[partition];
  if (holder != SegmentId(0) && is_alive(holder, deadline))
    return fail(ErrorCode::kAlreadyExists, "claim a partition: it has an owner", partition);
  // Its address space can be used again.
  if (holder != SegmentId(0)) (void)directory_.deallocate(ProcessId(0), holder, deadline);
  holder = segment;
  return {};
}

Result<std::vector<PartitionPlace>> PartitionRegistry::view(std::uint32_t from, Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  std::vector<PartitionPlace> seen;
  for (std::size_t i = from; i < segments_.size() && seen.size() < protocol::kPlacesPerAnswer; ++i) {
    PartitionPlace place{.partition = static_cast<std::uint32_t>(i), .segment = segments_[i]};
    const Result<segment::SegmentRecord> record = directory_.find(segments_[i], deadline);
    if (record && record->state != segment::SegmentState::kLost) {
      place.owner = record->owner;
      place.epoch = record->epoch;
      if (const auto server = servers_.find(record->owner); server != servers_.end())
        place.server = server->second;
    }
    seen.push_back(std::move(place));
  }
  return seen;
}

Result<std::vector<PartitionPlace>> PartitionRegistry::servers(Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  std::erase_if(servers_, [&](const auto& entry) {
    const Result<std::string> alive = directory_.address_of(entry.first, deadline);
    return !alive && alive.error() == ErrorCode::kNotFound;
  });
  std::vector<PartitionPlace> listed;
  for (const auto& [process, server] : servers_) {
    if (listed.size() < protocol::kPlacesPerAnswer) listed.push_back({.owner = process, .server = server});
  }
  return listed;
}

// ---------------------------------------------------------------- moves and loads

void PartitionRegistry::abandon_orders(Deadline deadline) {
  orders_.abandon([&](ProcessId process) {
    const Result<std::string> alive = directory_.address_of(process, deadline);
    return !alive && alive.error() == ErrorCode::kNotFound;
  });
}

Result<std::uint64_t> PartitionRegistry::order(std::uint32_t partition, ProcessId to, Deadline deadline) {
  abandon_orders(deadline);
  ProcessId owner;
  std::uint64_t bytes = 0;
  {
    const sync::LockGuard lock(mutex_);
    if (partition >= segments_.size())
      return fail(ErrorCode::kOutOfBounds, "order a move: no such partition", partition);
    if (!servers_.contains(to)) return fail(ErrorCode::kNotFound, "order a move: no such server");
    YONDER_TRY(record, directory_.find(segments_[partition], deadline));
    owner = record.owner;
    bytes = loads_[partition].last.bytes;
  }
  if (owner == to) return fail(ErrorCode::kAlreadyExists, "order a move: the partition is there", partition);
  return orders_.add(partition, owner, to, bytes);
}

Result<std::optional<MoveOrder>> PartitionRegistry::take_order(ProcessId owner, Deadline) {
  return orders_.take(owner);
}
Result<void> PartitionRegistry::finish_order(std::uint64_t id, ErrorCode error, Deadline) {
  return orders_.finish(id, error);
}
Result<void> PartitionRegistry::cancel_order(std::uint64_t id, Deadline) { return orders_.cancel(id); }
Result<void> PartitionRegistry::pause_orders(bool paused, Deadline) {
  orders_.set_paused(paused);
  return {};
}
Result<std::vector<MoveOrder>> PartitionRegistry::orders(Deadline deadline) {
  abandon_orders(deadline);
  return orders_.list();
}
Result<void> PartitionRegistry::report_arrivals(ProcessId target, const std::vector<ArrivalReport>& arrivals,
                                                Deadline) {
  for (const ArrivalReport& report : arrivals)
    orders_.arrived(report.partition, target, report.bytes_left, report.error);
  return {};
}

Result<void> PartitionRegistry::report(const std::vector<LoadReport>& loads, Deadline) {
  for (const LoadReport& report : loads) orders_.estimate(report.partition, report.bytes);
  const Instant now = clock_.now();
  const sync::LockGuard lock(mutex_);
  for (const LoadReport& report : loads) {
    if (report.partition >= loads_.size()) return fail(ErrorCode::kOutOfBounds, "report a load");
    Load& load = loads_[report.partition];
    const double seconds = static_cast<double>((now - load.at).count()) / 1e9;
    // The counter starts again when the partition has moved.
    if (load.at != Instant() && seconds > 0 && report.operations >= load.last.operations) {
      const double rate = static_cast<double>(report.operations - load.last.operations) / seconds;
      load.operations_per_second = kNewRate * rate + (1 - kNewRate) * load.operations_per_second;
    }
    load.last = report;
    load.at = now;
  }
  return {};
}

Result<std::vector<PlannedMove>> PartitionRegistry::plan(Deadline deadline) {
  YONDER_TRY(listed, servers(deadline));
  std::vector<ProcessId> servers;
  for (const PartitionPlace& place : listed) servers.push_back(place.owner);
  std::sort(servers.begin(), servers.end());
  const sync::LockGuard lock(mutex_);
  std::vector<PartitionLoad> partitions;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Result<segment::SegmentRecord> record = directory_.find(segments_[i], deadline);
    if (!record || record->state == segment::SegmentState::kLost) continue;
    partitions.push_back({.partition = static_cast<std::uint32_t>(i),
                          .owner = record->owner,
                          .load = loads_[i].operations_per_second,
                          .bytes = loads_[i].last.bytes});
  }
  std::vector<PlannedMove> moves = plan_moves(servers, partitions, {});
  for (PlannedMove& move : moves) move.bytes = loads_[move.partition].last.bytes;
  return moves;
}

}  // namespace yonder::cache
