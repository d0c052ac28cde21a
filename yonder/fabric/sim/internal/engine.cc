#include "yonder/fabric/sim/internal/engine.h"

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/endpoint.h"
#include "yonder/fabric/sim/internal/queue.h"
#include "yonder/fabric/sim/internal/region.h"

namespace yonder::fabric::sim {

Engine::Engine(const WorldOptions& options) : random_(options.seed), network_(options.network) {
  trace(options.seed);
}

Engine::~Engine() {
  for (const auto& host : hosts_) {
    YONDER_CHECK(host->made == 0, "a world outlives what its fabrics made");
  }
}

// ---------------------------------------------------------------- time

void Engine::begin_run(Ticks limit) {
  YONDER_CHECK(!running_, "a blocking call inside a coroutine or Operation of the same simulated world");
  running_ = true;
  limit_ = limit;
}

bool Engine::step(Ticks limit) {
  if (events_.empty() || events_.next_at() > limit) {
    // With nothing to come there is no "later" to go to for a wait without end.
    if (limit != kNever) now_ = std::max(now_, limit);
    return false;
  }
  const Event event = events_.pop();
  now_ = event.at;
  ++events_run_;
  trace(static_cast<std::uint64_t>(event.at) ^ (std::uint64_t{event.subject.slot} << 40) ^
        (static_cast<std::uint64_t>(event.kind) << 56));
  handle(event);
  return true;
}

Result<void> Engine::wait(QueueImpl& queue, Deadline deadline) {
  const std::uint64_t called = operations_called_;
  const auto done = [&] { return operations_called_ != called || queue.has_raw() || queue.take_wake(); };
  if (run(done, limit_of(deadline, std::chrono::seconds(1)))) return {};
  return fail(ErrorCode::kDeadlineExceeded, "wait for a completion");
}

void Engine::pass_time(Ticks until) {
  if (running_) return;
  run([] { return false; }, until);
}

Ticks Engine::limit_of(Deadline deadline, Duration by_default) const {
  if (deadline.is_default()) return after(by_default);
  return std::max(now_, to_ticks(deadline.instant()));
}

void Engine::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kArrive:
      if (Flight* flight = flights_.find(event.subject)) transport_.on_arrive(*flight);
      break;
    case EventKind::kStep:
      if (Flight* flight = flights_.find(event.subject)) transport_.on_step(*flight);
      break;
    case EventKind::kReturn:
      if (Flight* flight = flights_.find(event.subject)) transport_.on_return(*flight);
      break;
    case EventKind::kComplete:
      if (Flight* flight = flights_.find(event.subject)) transport_.on_complete(*flight);
      break;
    case EventKind::kRetransmit:
      if (Flight* flight = flights_.find(event.subject)) transport_.on_retransmit(*flight);
      break;
    case EventKind::kDisconnect:
    case EventKind::kPeerLost:
      if (QueuePair* pair = pairs_.find(event.subject)) connections_.drop(*pair, ErrorCode::kConnectionLost);
      break;
    case EventKind::kDrain:
      if (QueueImpl* queue = queues_.find(event.subject)) queue->drain();
      break;
    case EventKind::kExpire:
      if (EndpointImpl* endpoint = endpoints_.find(event.subject)) endpoint->expire();
      break;
    case EventKind::kDial:
      if (EndpointImpl* endpoint = endpoints_.find(event.subject)) connections_.on_dial(*endpoint);
      break;
    case EventKind::kConnectArrive:
      if (EndpointImpl* endpoint = endpoints_.find(event.subject))
        connections_.on_request(*endpoint, event.argument);
      break;
    case EventKind::kConnectReply:
      if (EndpointImpl* endpoint = endpoints_.find(event.subject))
        connections_.on_reply(*endpoint, event.argument);
      break;
    case EventKind::kConnectGiveUp:
      if (EndpointImpl* endpoint = endpoints_.find(event.subject))
        connections_.on_give_up(*endpoint, event.argument);
      break;
    case EventKind::kFault:
      handle_fault(event.argument);
      break;
  }
}

// ---------------------------------------------------------------- what there is

HostState& Engine::add_host(const HostOptions& options) {
  HostOptions named = options;
  if (named.name.empty()) named.name = "host" + std::to_string(hosts_.size());
  YONDER_CHECK(find_host(named.name) == nullptr, "host names are unique");
  YONDER_CHECK(!named.nics.empty() && named.sockets > 0 && named.page_bytes > 0,
               "a host has a NIC and a socket");
  for (const NicPlace& place : named.nics) {
    YONDER_CHECK(place.socket < named.sockets && place.model.units > 0, "a NIC sits on a socket of its host");
  }
  YONDER_CHECK(distance_.empty(), "hosts are added before distances");
  hosts_.push_back(std::make_unique<HostState>(host_count(), named));
  return *hosts_.back();
}

HostState* Engine::find_host(std::string_view name) {
  const auto found =
      std::ranges::find(hosts_, name, [](const auto& host) -> std::string_view { return host->name(); });
  return found == hosts_.end() ? nullptr : found->get();
}

Ref Engine::add_region(RegionImpl& region, HostState& host) {
  host.regions.emplace(region.key().value, &region);
  local_regions_.emplace(region.serial(), &region);
  return regions_.add(region);
}

void Engine::remove_region(RegionImpl& region, HostState& host) {
  host.regions.erase(region.key().value);
  local_regions_.erase(region.serial());
  regions_.remove(region.ref());
}

RegionImpl* Engine::find_local(LocalKey key) const {
  const auto found = local_regions_.find(key.value);
  return found == local_regions_.end() ? nullptr : found->second;
}

void Engine::receives_posted(const ReceiveBuffers& buffers) {
  std::vector<Ref> waiting;
  pairs_.for_each_live([&](const QueuePair& pair) {
    if (pair.receives == &buffers && !pair.held.empty()) waiting.push_back(pair.ref);
  });
  for (const Ref ref : waiting) {
    if (QueuePair* const pair = pairs_.find(ref)) transport_.on_receive_posted(*pair);
  }
}

void Engine::break_accessors(Ref region) {
  std::vector<Ref> targets;
  flights_.for_each_live([&](const Flight& flight) {
    if (flight.stage == Stage::kExecuting && flight.region == region) targets.push_back(flight.target);
  });
  for (const Ref target : targets) {
    if (QueuePair* const pair = pairs_.find(target)) connections_.break_both(*pair);
  }
}

// ---------------------------------------------------------------- network and faults

Ticks Engine::one_way(const HostState& from, const HostState& to) const {
  if (&from == &to) return 0;  // Turned round inside the NIC.
  const Ticks far = distance_.empty() ? 0 : distance_[from.index() * hosts_.size() + to.index()];
  return from.wire_latency() + network_.switch_latency + to.wire_latency() + far;
}

void Engine::add_distance(std::uint32_t a, std::uint32_t b, Ticks one_way) {
  distance_.resize(hosts_.size() * hosts_.size());
  distance_[a * hosts_.size() + b] += one_way;
  distance_[b * hosts_.size() + a] += one_way;
}

bool Engine::is_cut(const HostState& from, const HostState& to) const {
  return std::ranges::any_of(partitions_, [&](const std::vector<bool>& inside) {
    return inside[from.index()] != inside[to.index()];
  });
}

void Engine::schedule(const FaultAction& action) {
  YONDER_CHECK(action.host < host_count(), "a fault happens to a host that exists");
  actions_.push_back(action);
  events_.push(std::max(now_, to_ticks(action.at)), EventKind::kFault, {},
               static_cast<std::uint32_t>(actions_.size() - 1));
}

void Engine::handle_fault(std::uint32_t number) {
  const FaultAction& action = actions_[number];
  switch (action.kind) {
    case FaultKind::kCrash:
      return connections_.crash(host(action.host));
    case FaultKind::kRestart:
      host(action.host).is_up = true;
      return;
    case FaultKind::kPartition:
      partitions_.emplace_back(hosts_.size());
      for (const std::uint32_t index : action.hosts) partitions_.back()[index] = true;
      return;
    case FaultKind::kHeal:
      return partitions_.clear();
    case FaultKind::kSlow:
      return host(action.host).slow_down(action.percent);
    case FaultKind::kBreak:
      return connections_.break_all(host(action.host));
  }
}

}  // namespace yonder::fabric::sim
