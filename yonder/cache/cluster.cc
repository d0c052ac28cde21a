#include "yonder/cache/cluster.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/fabric/open/open.h"
#include "yonder/os/steady_clock.h"
#include "yonder/segment/agent.h"
#include "yonder/segment/arena.h"
#include "yonder/segment/local_directory.h"
#include "yonder/segment/remote_directory.h"

namespace yonder::cache {

using segment::ProcessId;
using segment::SegmentId;

namespace {

constexpr Duration kReportEvery = std::chrono::seconds(1);

}  // namespace

class Cluster::Core {
 public:
  Core(Store& store, const ClusterOptions& options) : store_(store), options_(options) {}
  ~Core();
  Result<void> start();

  std::string directory_address() const {
    return server_ != nullptr ? server_->address() : options_.directory;
  }
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

 private:
  Deadline soon() const { return Deadline::after(clock_, options_.timeout); }
  Result<void> open_directory();
  Result<void> refresh();
  void apply(const PartitionPlace& place);
  // An empty partition here, where nobody has one.
  Result<void> make_partition(std::uint32_t partition);
  void take(const segment::Segment& segment);
  void drop_lost();
  void look_after(const std::stop_token& stop);
  void run_orders();
  void report_loads();
  void balance();
  Result<std::map<ProcessId, std::string>> names();
  Result<ProcessId> process_of(const std::string& server, Deadline deadline);

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
  std::map<SegmentId, std::uint32_t> partition_of_ YONDER_GUARDED_BY(mutex_);
  std::jthread keeper_;  // Last: ends first.
};

Result<void> Cluster::Core::open_directory() {
  if (!options_.directory.empty()) {
    YONDER_TRY(directory, segment::RemoteDirectory::connect(*fabric_, options_.directory));
    YONDER_TRY(registry, connect_registry(*fabric_, options_.directory));
    remote_directory_ = std::move(directory);
    remote_registry_ = std::move(registry);
    directory_ = remote_directory_.get();
    registry_ = remote_registry_.get();
    YONDER_TRY(partitions, registry_->partitions(soon()));
    if (partitions != store_.partitions())
      return fail(ErrorCode::kInvalidArgument, "join a cluster: it has another number of partitions",
                  partitions);
    return {};
  }
  local_directory_ = std::make_unique<segment::LocalDirectory>(
      clock_, segment::LocalDirectoryOptions{.slots = arena_->slots(), .lease = options_.lease});
  local_registry_ = std::make_unique<PartitionRegistry>(*local_directory_, clock_,
                                                        static_cast<std::uint32_t>(store_.partitions()));
  directory_ = local_directory_.get();
  registry_ = local_registry_.get();
  YONDER_TRY(server, rpc::Server::create(*fabric_, {.address = options_.serve_at}));
  server_ = std::move(server);
  segment::serve_directory(*server_, *directory_);
  serve_registry(*server_, *registry_);
  return server_->start();
}

Result<void> Cluster::Core::start() {
  YONDER_TRY(fabric, fabric::open(options_.agent));
  fabric_ = std::move(fabric);
  YONDER_TRY(arena, segment::Arena::reserve({}));
  arena_ = std::move(arena);
  YONDER_TRY_VOID(open_directory());
  segment::AgentOptions agent{.address = options_.agent, .data_address = options_.agent};
  agent.on_received = [this](const segment::Segment& segment) { take(segment); };
  agent.timeout = options_.timeout;
  YONDER_TRY(made, segment::Agent::create(*fabric_, *arena_, *directory_, std::move(agent)));
  agent_ = std::move(made);
  YONDER_TRY_VOID(registry_->announce(agent_->id(), options_.server, soon()));
  YONDER_TRY_VOID(refresh());
  keeper_ = std::jthread([this](const std::stop_token& stop) { look_after(stop); });
  return {};
}

Cluster::Core::~Core() {
  if (keeper_.joinable()) {
    keeper_.request_stop();
    keeper_.join();
  }
  // The store must not look at memory that goes.
  for (std::size_t i = 0; i < store_.partitions(); ++i) (void)store_.detach(i, "");
}

// ---------------------------------------------------------------- the map

Result<void> Cluster::Core::refresh() {
  for (std::uint32_t from = 0; from < store_.partitions();) {
    YONDER_TRY(places, registry_->view(from, soon()));
    if (places.empty()) return fail(ErrorCode::kCorrupt, "the registry shows no partitions");
    for (const PartitionPlace& place : places) {
      if (place.partition >= store_.partitions())
        return fail(ErrorCode::kCorrupt, "a partition out of range");
      apply(place);
    }
    from = places.back().partition + 1;
  }
  return {};
}

void Cluster::Core::apply(const PartitionPlace& place) {
  {
    const sync::LockGuard lock(mutex_);
    map_.resize(store_.partitions());
    map_[place.partition] = place;
    if (place.segment != SegmentId(0)) partition_of_[place.segment] = place.partition;
  }
  if (place.owner == ProcessId(0)) {
    // Who has the directory makes what nobody has.
    if (local_registry_ == nullptr) return;
    if (Result<void> made = make_partition(place.partition); !made)
      log_error("cache", "partition cannot be made",
                {{"partition", place.partition}, {"error", made.error()}});
  } else if (place.owner != agent_->id()) {
    store_.set_owner(place.partition, place.server);
  }
}

Result<void> Cluster::Core::make_partition(std::uint32_t partition) {
  YONDER_TRY(segment, agent_->allocate(options_.partition_bytes, soon()));
  const auto fill = [&]() -> Result<void> {
    {
      YONDER_TRY(formatted, Partition::format(segment.memory, partition, store_.budget(), store_.policy()));
    }
    YONDER_TRY_VOID(registry_->claim(partition, segment.id, soon()));
    return store_.attach(partition, segment.memory);
  };
  if (Result<void> filled = fill(); !filled) {
    (void)agent_->deallocate(segment.id, soon());
    return filled;
  }
  const sync::LockGuard lock(mutex_);
  partition_of_[segment.id] = partition;
  map_[partition] = {.partition = partition,
                     .segment = segment.id,
                     .owner = agent_->id(),
                     .epoch = segment.epoch,
                     .server = options_.server};
  return {};
}

Result<ProcessId> Cluster::Core::process_of(const std::string& server, Deadline deadline) {
  YONDER_TRY(servers, registry_->servers(deadline));
  for (const PartitionPlace& place : servers) {
    if (place.server == server) return place.owner;
  }
  return fail(ErrorCode::kNotFound, "no server of the cluster has this address");
}

// ---------------------------------------------------------------- moving

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
  YONDER_TRY_VOID(agent_->connect(segment, target, {}, deadline));
  // From here on clients are forwarded; who comes too early at the target is asked to
  // try again by it, and does.
  YONDER_TRY(range, store_.detach(partition, server));
  const Result<segment::Transferred> transferred = agent_->transfer(segment, deadline);
  if (transferred) return {};
  const Result<segment::SegmentRecord> record = directory_->find(segment, soon());
  if (record && record->owner == agent_->id()) {
    (void)agent_->cancel(segment, soon());
    YONDER_TRY_VOID(store_.attach(partition, range));
  }
  return std::unexpected(transferred.error());
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
  }
  if (Result<void> attached = store_.attach_arriving(partition, segment.memory); !attached)
    log_error("cache", "partition cannot be used", {{"partition", partition}, {"error", attached.error()}});
}

Result<void> Cluster::Core::drain(Deadline deadline) {
  YONDER_TRY(servers, registry_->servers(deadline));
  std::erase_if(servers, [&](const PartitionPlace& place) { return place.owner == agent_->id(); });
  if (servers.empty()) return fail(ErrorCode::kNotFound, "drain: there is no other server");
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < store_.partitions(); ++i) {
    if (!store_.is_local(i)) continue;
    YONDER_TRY_VOID(migrate(i, servers[next++ % servers.size()].server, deadline));
  }
  // Their bytes must be read before this process may end.
  while (!agent_->migrations().empty()) {
    if (deadline.passed(clock_.now()))
      return fail(ErrorCode::kDeadlineExceeded, "drain: bytes are still leaving");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
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

void Cluster::Core::look_after(const std::stop_token& stop) {
  Instant next_report = clock_.now();
  Instant next_balance = clock_.now() + options_.balance_every;
  while (!stop.stop_requested()) {
    if (const Result<void> refreshed = refresh(); !refreshed)
      log_warn("cache", "map not refreshed", {{"error", refreshed.error()}});
    drop_lost();
    run_orders();
    if (clock_.now() >= next_report) {
      report_loads();
      next_report = clock_.now() + kReportEvery;
    }
    if (options_.balance && local_registry_ != nullptr && clock_.now() >= next_balance) {
      balance();
      next_balance = clock_.now() + options_.balance_every;
    }
    std::this_thread::sleep_for(options_.refresh);
  }
}

// ---------------------------------------------------------------- jobs

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

// While moves are under way their effect is not in the loads yet.
void Cluster::Core::balance() {
  const Result<std::vector<MoveOrder>> orders = registry_->orders(soon());
  if (!orders) return;
  const bool open = std::any_of(orders->begin(), orders->end(), [](const MoveOrder& order) {
    return order.state == OrderState::kQueued || order.state == OrderState::kRunning;
  });
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
    if (order.state != OrderState::kDone)
      return fail(ErrorCode::kAlreadyExists, "roll a job back that is not done",
                  static_cast<std::int64_t>(job));
    return registry_->order(order.partition, order.from, soon());
  }
  return fail(ErrorCode::kNotFound, "roll back: no such job", static_cast<std::int64_t>(job));
}

Result<std::vector<Cluster::Job>> Cluster::Core::rebalance(bool apply) {
  YONDER_TRY(moves, registry_->plan(soon()));
  YONDER_TRY(known, names());
  std::vector<Job> planned;
  for (const PlannedMove& move : moves) {
    Job job{.order = {.partition = move.partition, .from = move.from, .to = move.to},
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

std::vector<PartitionPlace> Cluster::Core::map() const {
  const sync::LockGuard lock(mutex_);
  return map_;
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

// ---------------------------------------------------------------- the public face

Result<std::unique_ptr<Cluster>> Cluster::join(Store& store, const ClusterOptions& options) {
  auto core = std::make_unique<Core>(store, options);
  YONDER_TRY_VOID(core->start());
  return std::unique_ptr<Cluster>(new Cluster(std::move(core)));
}

Cluster::Cluster(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Cluster::~Cluster() = default;
std::string Cluster::directory_address() const { return core_->directory_address(); }
Result<void> Cluster::migrate(std::uint32_t partition, const std::string& server, Deadline deadline) {
  return core_->migrate(partition, server, deadline);
}
Result<void> Cluster::drain(Deadline deadline) { return core_->drain(deadline); }
Result<std::uint64_t> Cluster::order(std::uint32_t partition, const std::string& server) {
  return core_->order(partition, server);
}
Result<std::vector<Cluster::Job>> Cluster::jobs() { return core_->jobs(); }
Result<void> Cluster::cancel(std::uint64_t job) { return core_->cancel(job); }
Result<std::uint64_t> Cluster::roll_back(std::uint64_t job) { return core_->roll_back(job); }
Result<void> Cluster::pause(bool paused) { return core_->pause(paused); }
Result<std::vector<Cluster::Job>> Cluster::rebalance(bool apply) { return core_->rebalance(apply); }
std::vector<PartitionPlace> Cluster::map() const { return core_->map(); }
std::vector<Cluster::Moving> Cluster::moving() const { return core_->moving(); }

}  // namespace yonder::cache
