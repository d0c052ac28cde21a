// Moves that somebody asked for: by a person, or by the balancer.

#include <algorithm>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/cache/internal/cluster_core.h"

namespace yonder::cache {

using segment::ProcessId;
using segment::SegmentId;

void Cluster::Core::run_orders() {
  const Result<std::optional<MoveOrder>> order = registry_->take_order(agent_->id(), soon());
  if (!order || !*order) return;
  const Result<std::map<ProcessId, std::string>> known = names();
  const auto to = known ? known->find((*order)->to) : decltype(known->end()){};
  Result<void> moved = fail(ErrorCode::kNotFound, "the target of a move is gone");
  if (known && to != known->end()) moved = migrate((*order)->partition, to->second, {});
  if (!moved)
    log_warn("cache", "a move failed", {{"partition", (*order)->partition}, {"error", moved.error()}});
  (void)registry_->finish_order((*order)->id, moved ? ErrorCode::kOk : moved.error().code(), soon());
}

void Cluster::Core::report_loads() {
  std::vector<LoadReport> loads;
  for (std::uint32_t i = 0; i < store_.partitions(); ++i) {
    if (!store_.is_local(i)) continue;
    LoadReport load{.partition = i, .operations = store_.operations(i)};
    const Access access =
        store_.visit_partition(i, [&](Partition& partition) { load.bytes = partition.stats().heap_bytes; });
    if (access == Access::kDone) loads.push_back(load);
  }
  if (const Result<void> reported = registry_->report(loads, soon()); !reported)
    log_warn("cache", "loads not reported", {{"error", reported.error()}});
}

// The set of arrivals is looked at before the agent's list: what is in the set and not in the
// list is complete.
void Cluster::Core::report_arrivals() {
  std::vector<std::pair<std::uint32_t, SegmentId>> arriving;
  {
    const sync::LockGuard lock(mutex_);
    for (const std::uint32_t partition : arriving_) arriving.emplace_back(partition, map_[partition].segment);
  }
  if (arriving.empty()) return;
  const std::vector<segment::Migration> migrations = agent_->migrations();
  std::vector<ArrivalReport> reports;
  for (const auto& [partition, segment] : arriving) {
    ArrivalReport report{.partition = partition};
    const auto moving = std::ranges::find(migrations, segment, &segment::Migration::id);
    if (moving != migrations.end() && moving->state == segment::MigrationState::kLost) {
      report.error = ErrorCode::kSegmentLost;
    } else if (moving != migrations.end() && moving->state == segment::MigrationState::kArriving) {
      if (moving->counts_holes) continue;  // Most of the address space: it says nothing of the data.
      report.bytes_left = moving->bytes_left;
    }
    reports.push_back(report);
  }
  if (!registry_->report_arrivals(agent_->id(), reports, soon())) return;  // Said again the next time.
  const sync::LockGuard lock(mutex_);
  for (const ArrivalReport& report : reports) {
    if (report.bytes_left == 0) arriving_.erase(report.partition);
  }
}

// While moves are under way their effect is not in the loads yet.
void Cluster::Core::balance() {
  const Result<std::vector<MoveOrder>> orders = registry_->orders(soon());
  if (!orders) return;
  const bool open = std::any_of(orders->begin(), orders->end(),
                                [](const MoveOrder& order) { return is_under_way(order.state); });
  if (!open) (void)rebalance(true);
}

Result<std::map<ProcessId, std::string>> Cluster::Core::names() {
  YONDER_TRY(servers, registry_->servers(soon()));
  std::map<ProcessId, std::string> found;
  for (const PartitionPlace& place : servers) found[place.owner] = place.server;
  return found;
}

Result<std::uint64_t> Cluster::Core::order(std::uint32_t partition, const std::string& server) {
  YONDER_TRY(target, process_of(server, soon()));
  return registry_->order(partition, target, soon());
}

Result<std::vector<Cluster::Job>> Cluster::Core::jobs() {
  YONDER_TRY(orders, registry_->orders(soon()));
  YONDER_TRY(known, names());
  std::vector<Job> listed;
  for (const MoveOrder& order : orders) listed.push_back({order, known[order.from], known[order.to]});
  return listed;
}

Result<std::uint64_t> Cluster::Core::roll_back(std::uint64_t job) {
  YONDER_TRY(orders, registry_->orders(soon()));
  for (const MoveOrder& order : orders) {
    if (order.id != job) continue;
    // What is still arriving arrives first (migrate).
    if (order.state != OrderState::kDone && order.state != OrderState::kArriving)
      return fail(ErrorCode::kAlreadyExists, "roll back: its partition has not moved, job",
                  static_cast<std::int64_t>(job));
    return registry_->order(order.partition, order.from, soon());
  }
  return fail(ErrorCode::kNotFound, "roll back: there is no such job", static_cast<std::int64_t>(job));
}

Result<std::vector<Cluster::Job>> Cluster::Core::rebalance(bool apply) {
  YONDER_TRY(moves, registry_->plan(soon()));
  YONDER_TRY(known, names());
  std::vector<Job> planned;
  for (const PlannedMove& move : moves) {
    Job job{
        .order = {.partition = move.partition, .from = move.from, .to = move.to, .bytes_left = move.bytes},
        .from = known[move.from],
        .to = known[move.to]};
    if (apply) {
      YONDER_TRY(id, registry_->order(move.partition, move.to, soon()));
      job.order.id = id;
    }
    planned.push_back(std::move(job));
  }
  return planned;
}

}  // namespace yonder::cache
