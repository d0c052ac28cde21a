// Partitions that leave for another server, and those that come.

#include <algorithm>
#include <thread>

#include "yonder/base/log.h"
#include "yonder/cache/internal/cluster_core.h"

namespace yonder::cache {

using segment::ProcessId;
using segment::SegmentId;

Result<void> Cluster::Core::migrate(std::uint32_t partition, const std::string& server, Deadline deadline) {
  deadline = deadline.or_default(soon());
  if (partition >= store_.partitions())
    return fail(ErrorCode::kOutOfBounds, "migrate a partition that is not there", partition);
  YONDER_TRY(target, process_of(server, deadline));
  SegmentId segment;
  {
    const sync::LockGuard lock(mutex_);
    segment = map_[partition].segment;
  }
  if (!store_.is_local(partition))
    return fail(ErrorCode::kNotOwner, "migrate a partition of another server", partition);
  // One that is still arriving arrives first.
  YONDER_TRY_VOID(agent_->close(segment, deadline));
  segment::ConnectOptions how;
  if (options_.keep_until_complete) {
    YONDER_TRY(keeper, keeper_beside(target, deadline));
    how.keep_until_complete = keeper;
  }
  YONDER_TRY_VOID(agent_->connect(segment, target, how, deadline));
  std::span<std::byte> range;
  const Result<segment::Transferred> transferred = agent_->transfer(segment, deadline, [&]() -> Result<void> {
    // From here on clients are forwarded; who comes too early at the target is asked to
    // try again by it, and does.
    YONDER_TRY(detached, store_.detach(partition, server));
    range = detached;
    return {};
  });
  if (transferred) return {};
  const Result<segment::SegmentRecord> record = directory_->find(segment, soon());
  if (record && record->owner == agent_->id()) {
    (void)agent_->cancel(segment, soon());
    if (!range.empty()) YONDER_TRY_VOID(store_.attach(partition, range));
  }
  return std::unexpected(transferred.error());
}

// The oldest of the other servers: that is the first one, if it is not among the two.
Result<ProcessId> Cluster::Core::keeper_beside(ProcessId target, Deadline deadline) {
  YONDER_TRY(servers, registry_->servers(deadline));
  ProcessId keeper(0);
  for (const PartitionPlace& place : servers) {
    if (place.owner == agent_->id() || place.owner == target) continue;
    if (keeper == ProcessId(0) || place.owner < keeper) keeper = place.owner;
  }
  return keeper;
}

// On a thread of the agent, at the moment of the transfer.
void Cluster::Core::take(const segment::Segment& segment) {
  std::uint32_t partition = 0;
  {
    const sync::LockGuard lock(mutex_);
    const auto found = partition_of_.find(segment.id);
    if (found == partition_of_.end()) {
      log_error("cache", "a segment came that is no partition", {{"segment", segment.id.value()}});
      return;
    }
    partition = found->second;
    map_[partition].owner = agent_->id();
    map_[partition].epoch = segment.epoch;
    map_[partition].server = options_.server;
    arriving_.insert(partition);
  }
  if (Result<void> attached = store_.attach_arriving(partition, segment.memory); !attached)
    log_error("cache", "partition cannot be used", {{"partition", partition}, {"error", attached.error()}});
}

Result<void> Cluster::Core::drain(Deadline deadline) {
  YONDER_TRY(servers, registry_->servers(deadline));
  std::erase_if(servers, [&](const PartitionPlace& place) { return place.owner == agent_->id(); });
  if (servers.empty())
    return fail(ErrorCode::kNotFound, "drain: there is no other server that could take the partitions");
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < store_.partitions(); ++i) {
    if (!store_.is_local(i)) continue;
    YONDER_TRY_VOID(migrate(i, servers[next++ % servers.size()].server, deadline));
    // One at a time: clients wait for pages of the few that are on their way, not of all. And
    // all bytes must have been read before this process may end.
    YONDER_TRY_VOID(await_left(deadline));
  }
  return {};
}

Result<void> Cluster::Core::await_left(Deadline deadline) {
  while (!agent_->migrations().empty()) {
    if (deadline.passed(clock_.now()))
      return fail(ErrorCode::kDeadlineExceeded, "drain: bytes are still leaving");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

// A partition whose source died before all had arrived is dropped; the registry shows it
// as nobody's when its segment is gone, and it is made anew.
void Cluster::Core::drop_lost() {
  const std::vector<segment::Migration> migrations = agent_->migrations();
  for (std::uint32_t i = 0; i < store_.partitions(); ++i) {
    SegmentId segment;
    {
      const sync::LockGuard lock(mutex_);
      segment = map_[i].segment;
      if (map_[i].owner != agent_->id()) continue;
    }
    const auto moving =
        std::find_if(migrations.begin(), migrations.end(), [&](const segment::Migration& migration) {
          return migration.id == segment && (migration.state == segment::MigrationState::kArriving ||
                                             migration.state == segment::MigrationState::kLost);
        });
    if (moving == migrations.end()) {
      store_.set_complete(i);
    } else if (moving->state == segment::MigrationState::kLost) {
      log_error("cache", "partition lost with its source", {{"partition", i}});
      (void)store_.detach(i, "");
      (void)agent_->deallocate(segment, soon());
      if (Result<void> made = make_partition(i); !made)
        log_error("cache", "partition cannot be made", {{"partition", i}, {"error", made.error()}});
    }
  }
}

std::vector<Cluster::Moving> Cluster::Core::moving() const {
  std::vector<Moving> found;
  for (const segment::Migration& migration : agent_->migrations()) {
    const sync::LockGuard lock(mutex_);
    const auto partition = partition_of_.find(migration.id);
    if (partition == partition_of_.end()) continue;
    const bool arriving = migration.state == segment::MigrationState::kArriving ||
                          migration.state == segment::MigrationState::kExpected ||
                          migration.state == segment::MigrationState::kLost;
    found.push_back(
        {.partition = partition->second, .arriving = arriving, .bytes_left = migration.bytes_left});
  }
  return found;
}

}  // namespace yonder::cache
