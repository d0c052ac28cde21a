#include "yonder/node/server.h"

#include <algorithm>
#include <set>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/log.h"
#include "yonder/node/internal/lanes.h"
#include "yonder/node/internal/nic_views.h"
#include "yonder/node/internal/node_metrics.h"
#include "yonder/node/internal/port.h"
#include "yonder/node/internal/shortage.h"
#include "yonder/node/keeper.h"
#include "yonder/os/steady_clock.h"
#include "yonder/telemetry/counters.h"

namespace yonder::node {

using internal::Lanes;
using internal::NodeMetrics;
using internal::Port;
using internal::Shortage;

namespace {

// Whether a one-sided copy over `provider` can be proved with `validator`.
bool is_sound(Validator validator, std::string_view provider, Remap remap) {
  switch (validator) {
    case Validator::kChecksum:
      return true;
    case Validator::kReread:
      // Needs requests that take effect in order and words that are never torn (E1
      // and E5 of endpoint.h); a NIC may fetch the lines of one request in any order,
      // and those of the next before.
      return provider != "verbs";
    case Validator::kLines:
      // Of a device that fetches lines whole; and where blocks are remapped the header is
      // looked at again (V3 of block_views.h), in order.
      return provider == "sim" || (provider == "verbs" && remap == Remap::kTable);
  }
  return false;
}

Result<Validator> choose_validator(const NodeOptions& options) {
  bool all_shm = true;
  for (const PortOptions& port : options.ports) {
    const std::string_view provider = port.fabric->capabilities().provider;
    all_shm = all_shm && provider == "shm";
    if (options.validator && !is_sound(*options.validator, provider, options.heap.remap)) {
      return fail(ErrorCode::kInvalidArgument, "node: the validator proves nothing on a port's fabric");
    }
  }
  return options.validator.value_or(all_shm ? Validator::kReread : Validator::kChecksum);
}

Result<void> check(const NodeOptions& options) {
  if (options.ports.empty()) return fail(ErrorCode::kInvalidArgument, "node without a port");
  std::set<const fabric::Fabric*> fabrics;
  for (const PortOptions& port : options.ports) {
    if (port.fabric == nullptr || !fabrics.insert(port.fabric).second) {
      return fail(ErrorCode::kInvalidArgument, "node: every port has a fabric of its own");
    }
  }
  if (options.pollers == 0 && options.ports.size() > 1) {
    return fail(ErrorCode::kInvalidArgument, "node: a driven server has one port");
  }
  if (options.pollers == 0 && !options.functions.directory.empty()) {
    return fail(ErrorCode::kInvalidArgument, "node: a driven server runs no functions");
  }
  if (options.compaction.interval <= Duration(0)) {
    return fail(ErrorCode::kInvalidArgument, "node: the interval of compaction");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Server>> Server::create(const NodeOptions& options) {
  YONDER_TRY_VOID(check(options));
  NodeOptions chosen = options;
  YONDER_TRY(validator, choose_validator(options));
  chosen.heap.classes.validator = validator;
  std::unique_ptr<Server> server(new Server(chosen));
  YONDER_TRY_VOID(server->open_heap());
  YONDER_TRY_VOID(server->open_ports());
  if (chosen.pollers != 0) server->housekeeper_ = std::thread([raw = server.get()] { raw->keep_house(); });
  return server;
}

Server::Server(const NodeOptions& options)
    : options_(options), is_kept_(options.heap.keeper != nullptr), policy_(options.compaction) {}

Server::~Server() {
  const Deadline deadline = Deadline::after(options_.ports[0].fabric->clock(), options_.stop_timeout);
  // What is still running then is the rpc server's to judge, when it goes.
  (void)stop(deadline);
  for (const auto& port : ports_) port->close();
  host_.reset();
  if (extents_ != nullptr) extents_->close();
  shortage_.reset();
  lanes_.reset();
  heap_.reset();
}

Result<void> Server::open_heap() {
  if (options_.registry == nullptr) own_registry_ = std::make_unique<telemetry::Registry>();
  YONDER_TRY(metrics, NodeMetrics::create(options_.registry ? *options_.registry : *own_registry_));
  metrics_ = std::make_unique<NodeMetrics>(metrics);
  std::vector<fabric::Fabric*> fabrics;
  for (const PortOptions& port : options_.ports) fabrics.push_back(port.fabric);
  extents_ = std::make_unique<ExtentStore>(std::move(fabrics), options_.extents);
  for (std::size_t i = 0; i < options_.ports.size(); ++i) {
    ports_.push_back(std::make_unique<Port>(i, options_, *metrics_, *extents_));
  }
  if (!options_.functions.directory.empty()) {
    YONDER_TRY(host, offload::Host::create(options_.functions));
    host_ = std::move(host);
    for (const auto& port : ports_) port->use_host(host_.get());
  }
  HeapOptions heap = options_.heap;
  heap.owners = static_cast<std::uint32_t>(lane_count());
  ++heap.max_threads;  // The spare lane.
  if (heap.remap == Remap::kMmap) {
    views_ = std::make_unique<internal::AllNicViews>();
    for (const auto& port : ports_) {
      YONDER_TRY(views, port->add_views());
      views_->add(*views);
    }
    heap.view_observer = views_.get();
  }
  for (const PortOptions& port : options_.ports) {
    // Its NIC has the pages pinned, and would read old ones.
    if (port.fabric->capabilities().provider == "verbs") heap.give_back = false;
  }
  heap.on_superblock = [this](const Superblock& superblock) -> Result<void> {
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      const Result<void> added = ports_[i]->add_superblock(superblock);
      if (added) continue;
      // All or none: a superblock has the same number on every port.
      while (i-- > 0) ports_[i]->drop_last_superblock();
      return added;
    }
    return {};
  };
  YONDER_TRY(made, Heap::create(options_.ports[0].fabric->clock(), heap));
  heap_ = std::move(made);
  due_class_ = heap_->classes().count();
  return {};
}

Result<void> Server::open_ports() {
  YONDER_TRY(lanes, Lanes::create(*heap_, lane_count()));
  lanes_ = std::move(lanes);
  shortage_ = std::make_unique<Shortage>(*heap_, options_.ports[0].fabric->clock(),
                                         Shortage::Options{.max_calls = options_.max_waiting,
                                                           .on_shortage = options_.heap.on_shortage,
                                                           .on_park = [this] { wake_housekeeper(); }});
  for (const auto& port : ports_) YONDER_TRY_VOID(port->open(*heap_, *lanes_, *shortage_));
  return {};
}

std::size_t Server::lane_count() const { return std::max(options_.pollers, 1u) * ports_.size(); }

std::string Server::address(std::size_t port) const {
  YONDER_CHECK(port < ports_.size(), "the node has such a port");
  return ports_[port]->server().address();
}

// ---------------------------------------------------------------- housekeeping

CompactionPolicy Server::compaction_policy() const {
  sync::LockGuard lock(mutex_);
  return policy_;
}

void Server::set_compaction_policy(const CompactionPolicy& policy) {
  {
    sync::LockGuard lock(mutex_);
    policy_ = policy;
  }
  wakes_.notify_all();
}

bool Server::is_due(const ClassStats& stats, const CompactionPolicy& policy) const {
  if (!policy.automatic || stats.slots == 0 || stats.fragmentation() < policy.threshold) return false;
  const std::uint64_t spare = stats.slots - std::min(stats.slots, stats.live);
  return spare * stats.slot_bytes >= policy.min_waste_bytes;
}

bool Server::compact_some(const CompactionPolicy& policy) {
  const std::size_t count = heap_->classes().count();
  if (due_class_ == count) {
    const HeapStats stats = heap_->stats();
    for (std::size_t i = 0; i < count && due_class_ == count; ++i) {
      const std::size_t candidate = (next_class_ + i) % count;
      if (is_due(stats.classes[candidate], policy)) due_class_ = candidate;
    }
    if (due_class_ == count) return false;
  }
  const SliceOutcome outcome = heap_->compactor().slice(static_cast<std::uint8_t>(due_class_), policy.slice);
  if (outcome == SliceOutcome::kMore) return true;
  // Whatever came of it, the next class has its turn before this one's next run.
  next_class_ = (due_class_ + 1) % count;
  due_class_ = count;
  heap_->reclaim();
  return outcome == SliceOutcome::kDone;
}

void Server::keep_house() {
  // The machine's clock: a condition knows no other, and there are no threads in
  // virtual time.
  const os::SteadyClock clock;
  Deadline untidy = Deadline::after(clock, compaction_policy().interval);
  while (!stopping_.load(std::memory_order_acquire)) {
    const CompactionPolicy policy = compaction_policy();
    // Those who wait for memory come first. They pause for as long as a slice takes, so
    // that who serves has at least half of a processor that they share.
    const bool is_short = shortage_->size() != 0;
    if (is_short) shortage_->step(policy.slice);
    const bool more = is_short || compact_some(policy);
    if (!more || untidy.passed(clock.now())) {
      tidy();
      untidy = Deadline::after(clock, policy.interval);
    }
    const Duration pause = is_short ? policy.slice.time : more ? policy.pause : policy.interval;
    const Deadline next = Deadline::after(clock, pause);
    sync::LockGuard lock(mutex_);
    const bool has_time = is_short || shortage_->size() == 0;
    if (has_time && !stopping_.load(std::memory_order_acquire)) (void)wakes_.wait(lock, next);
  }
}

void Server::tidy() {
  heap_->reclaim();
  for (const auto& port : ports_) port->stages().expire();
  refresh_keeper();
  publish_gauges();
}

void Server::wake_housekeeper() {
  if (options_.pollers != 0) {
    // Under the mutex: it has not looked yet, or it sleeps.
    sync::LockGuard lock(mutex_);
    wakes_.notify_all();
    return;
  }
  // A driven server has nobody to hand it to, and what handlers do takes no virtual
  // time. Far more steps than a heap needs; who is left waits for compact_driven().
  constexpr int kSteps = 1 << 20;
  for (int i = 0; i < kSteps && shortage_->size() != 0; ++i) shortage_->step(compaction_policy().slice);
}

void Server::refresh_keeper() {
  if (options_.heap.keeper == nullptr) return;
  const Result<void> kept = options_.heap.keeper->refresh();
  if (kept.has_value() == is_kept_) return;
  is_kept_ = kept.has_value();
  if (is_kept_)
    log_info("node", "the keeper has the memory again");
  else
    log_error("node", "no keeper has the memory",
              {{"why", std::string_view(error_name(kept.error().code()))}});
}

fabric::Task<void> Server::compact_driven(fabric::Scheduler& scheduler) {
  while (!stopping_.load(std::memory_order_acquire)) {
    const CompactionPolicy policy = compaction_policy();
    if (shortage_->size() != 0) shortage_->step(policy.slice);
    const bool more = compact_some(policy);
    if (!more) tidy();
    co_await scheduler.sleep_for(more ? policy.pause : policy.interval);
  }
}

fabric::Task<void> Server::serve(fabric::Scheduler& scheduler) {
  YONDER_CHECK(options_.pollers == 0, "a server with threads serves by itself");
  scheduler.spawn(compact_driven(scheduler));
  co_await ports_[0]->server().serve(scheduler);
}

std::uint64_t Server::compact() {
  const std::uint64_t before = heap_->compactor().counters().bytes_freed;
  for (std::size_t i = 0; i < heap_->classes().count(); ++i) {
    SliceOutcome outcome = SliceOutcome::kMore;
    while (outcome == SliceOutcome::kMore && !stopping_.load(std::memory_order_acquire)) {
      outcome = heap_->compactor().slice(static_cast<std::uint8_t>(i), compaction_policy().slice);
    }
  }
  heap_->reclaim();
  return heap_->compactor().counters().bytes_freed - before;
}

// ---------------------------------------------------------------- statistics

NodeStats Server::stats() const {
  NodeStats out;
  out.heap = heap_->stats();
  out.compaction = heap_->compactor().counters();
  out.kept = is_kept_;
  out.waiting = shortage_->size();
  out.extent_bytes = extents_->bytes();
  if (host_ != nullptr) out.functions = host_->stats();
  for (const auto& port : ports_) {
    const rpc::ServerStats served = port->server().stats();
    out.requests += served.requests;
    out.refused += served.refused;
    out.connections += served.connections;
    out.staged_bytes += port->stages().bytes();
  }
  return out;
}

void Server::publish_gauges() const {
  const NodeStats now = stats();
  std::uint64_t live = 0;
  for (const ClassStats& size_class : now.heap.classes) live += size_class.live;
  const auto set = [](const telemetry::Gauge& gauge, std::uint64_t value) {
    gauge.set(static_cast<std::int64_t>(value));
  };
  set(metrics_->active_bytes, now.heap.active_bytes);
  set(metrics_->retired_bytes, now.heap.retired_bytes);
  set(metrics_->live_objects, live);
  set(metrics_->blocks, now.heap.blocks);
  set(metrics_->connections, now.connections);
  set(metrics_->staged_bytes, now.staged_bytes);
  set(metrics_->waiting, now.waiting);
  set(metrics_->extent_bytes, now.extent_bytes);
  set(metrics_->compaction_runs, now.compaction.runs);
  set(metrics_->compaction_slices, now.compaction.slices);
  set(metrics_->compaction_objects, now.compaction.objects_moved);
  set(metrics_->compaction_freed_bytes, now.compaction.bytes_freed);
  set(metrics_->corrections, now.heap.corrections);
  set(metrics_->asked_of_others, now.heap.owner_answers.by_others);
  set(metrics_->asked_of_itself, now.heap.owner_answers.by_asker);
  set(metrics_->asked_in_vain, now.heap.owner_answers.unanswered);
}

// ---------------------------------------------------------------- the end

void Server::begin_stop() {
  {
    sync::LockGuard lock(mutex_);
    stopping_.store(true, std::memory_order_release);
  }
  wakes_.notify_all();
  for (const auto& port : ports_) {
    if (port->is_open()) port->server().begin_stop();
  }
}

Result<void> Server::stop(Deadline deadline) {
  begin_stop();
  sync::LockGuard lock(stop_mutex_);
  if (housekeeper_.joinable()) housekeeper_.join();
  if (shortage_ != nullptr) shortage_->close();
  // A function may take longer than we wait; its client is told.
  if (host_ != nullptr) host_->stop();
  Result<void> result;
  for (const auto& port : ports_) {
    if (!port->is_open()) continue;
    const Result<void> stopped = port->server().stop(deadline);
    if (!stopped) result = stopped;
  }
  return result;
}

bool Server::stopped() const {
  return std::ranges::all_of(ports_,
                             [](const auto& port) { return !port->is_open() || port->server().stopped(); });
}

}  // namespace yonder::node
