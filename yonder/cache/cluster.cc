#include "yonder/cache/cluster.h"

#include <thread>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/cache/internal/cluster_core.h"
#include "yonder/fabric/open/open.h"
#include "yonder/segment/remote_directory.h"

namespace yonder::cache {

using segment::ProcessId;
using segment::SegmentId;

namespace {

constexpr Duration kReportEvery = std::chrono::seconds(1);

// The options with the key in all addresses, if there is one.
Result<ClusterOptions> guard(ClusterOptions options) {
  if (options.key == nullptr) return options;
  for (std::string* address : {&options.agent, &options.directory, &options.serve_at}) {
    if (address->empty()) continue;
    YONDER_TRY(guarded, options.key->guard(*address));
    *address = std::move(guarded);
  }
  return options;
}

// What others need to know of an address: not where our key lies.
std::string place_of(const std::string& address) { return address.substr(0, address.find('?')); }

}  // namespace

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
  store_.set_self(options_.server);
  YONDER_TRY(fabric, fabric::open(options_.agent));
  fabric_ = std::move(fabric);
  YONDER_TRY(arena, segment::Arena::reserve({}));
  arena_ = std::move(arena);
  YONDER_TRY_VOID(open_directory());
  segment::AgentOptions agent{.address = options_.agent, .data_address = options_.agent};
  agent.on_received = [this](const segment::Segment& segment) { take(segment); };
  agent.timeout = options_.timeout;
  agent.receive.prefetch_bytes_per_second = options_.pull_bytes_per_second;
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

std::string Cluster::Core::directory_address() const {
  const std::string address = server_ != nullptr ? server_->address() : options_.directory;
  return options_.key != nullptr ? place_of(address) : address;
}

std::vector<PartitionPlace> Cluster::Core::map() const {
  const sync::LockGuard lock(mutex_);
  return map_;
}

void Cluster::Core::look_after(const std::stop_token& stop) {
  Instant next_report = clock_.now();
  Instant next_balance = clock_.now() + options_.balance_every;
  while (!stop.stop_requested()) {
    if (const Result<void> refreshed = refresh(); !refreshed)
      log_warn("cache", "map not refreshed", {{"error", refreshed.error()}});
    report_arrivals();
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

// ---------------------------------------------------------------- the public face

Result<std::unique_ptr<Cluster>> Cluster::join(Store& store, const ClusterOptions& options) {
  YONDER_TRY(guarded, guard(options));
  auto core = std::make_unique<Core>(store, guarded);
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
Result<std::vector<std::string>> Cluster::servers() {
  YONDER_TRY(names, core_->names());
  std::vector<std::string> listed;
  for (auto& [process, server] : names) listed.push_back(std::move(server));
  return listed;
}
std::vector<PartitionPlace> Cluster::map() const { return core_->map(); }
std::vector<Cluster::Moving> Cluster::moving() const { return core_->moving(); }

}  // namespace yonder::cache
