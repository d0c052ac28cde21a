#include "yonder/fabric/sim/internal/connections.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/endpoint.h"
#include "yonder/fabric/sim/internal/engine.h"
#include "yonder/fabric/sim/internal/listener.h"
#include "yonder/fabric/sim/internal/queue.h"
#include "yonder/fabric/sim/internal/region.h"

namespace yonder::fabric::sim {

// ---------------------------------------------------------------- handshake

void Connections::dial(EndpointImpl& endpoint) {
  Dial& dial = *endpoint.dial();
  dial.under_way = true;
  dial.pair = {};
  ++dial.attempt;
  const Ticks give_up = engine_.after(dial.options.connect_timeout);
  if (give_up != kNever) {
    engine_.events().push(give_up, EventKind::kConnectGiveUp, endpoint.ref(), dial.attempt);
  }
  const HostState* const target = engine_.find_host(dial.host);
  // A request that cannot pass is not repeated here: the attempt ends in silence,
  // and the next one is the endpoint's business.
  if (target == nullptr || engine_.is_cut(endpoint.host(), *target)) return;
  const Ticks arrival =
      engine_.now() + engine_.network().handshake / 2 + engine_.one_way(endpoint.host(), *target);
  engine_.events().push(arrival, EventKind::kConnectArrive, endpoint.ref(), dial.attempt);
}

void Connections::on_dial(EndpointImpl& endpoint) {
  if (endpoint.state() == EndpointState::kReconnecting && !endpoint.dial()->under_way) dial(endpoint);
}

void Connections::on_request(EndpointImpl& endpoint, std::uint32_t attempt) {
  Dial& dial = *endpoint.dial();
  if (!dial.under_way || dial.attempt != attempt) return;
  HostState& target = *engine_.find_host(dial.host);
  if (!target.is_up) return;  // Silence; the attempt times out.
  dial.answer = admit(endpoint, target);
  if (engine_.is_cut(target, endpoint.host())) return;
  const Ticks arrival =
      engine_.now() + engine_.network().handshake / 2 + engine_.one_way(target, endpoint.host());
  engine_.events().push(arrival, EventKind::kConnectReply, endpoint.ref(), attempt);
}

Result<void> Connections::admit(EndpointImpl& endpoint, HostState& target) {
  Dial& dial = *endpoint.dial();
  const auto found = target.listeners.find(dial.port);
  if (found == target.listeners.end()) return fail(ErrorCode::kConnectionRefused, "connect", dial.port);
  ListenerImpl& listener = *found->second;
  const Hello ours{.identity = listener.options().identity};
  const Hello theirs{.identity = dial.options.identity};
  YONDER_TRY(at_target, agree(ours, theirs));
  YONDER_TRY(at_initiator, agree(theirs, ours));
  if (theirs.identity.epoch < target.epoch) {
    return fail(ErrorCode::kStaleEpoch, "connect", static_cast<std::int64_t>(target.epoch.value()));
  }
  YONDER_TRY(accepted, listener.admit());
  dial.agreement = at_initiator;
  dial.greeting = listener.options().greeting;
  make_pair(endpoint, listener, target, accepted, at_target);
  return {};
}

QueuePair& Connections::make_end(HostState& host, HostState& peer, std::uint32_t nic) {
  QueuePair& pair = engine_.pairs().acquire();
  const Ref ref = pair.ref;
  pair = QueuePair{};
  pair.ref = ref;
  pair.serial = engine_.next_serial();
  pair.host = &host;
  pair.peer_host = &peer;
  pair.nic = &host.nic(nic);
  pair.unit = static_cast<std::uint32_t>(pair.serial % pair.nic->model().units);
  return pair;
}

void Connections::make_pair(EndpointImpl& endpoint, ListenerImpl& listener, HostState& target,
                            EndpointImpl* accepted, const Agreement& at_target) {
  QueuePair& near = make_end(endpoint.host(), target, endpoint.nic_index());
  QueuePair& far = make_end(target, endpoint.host(), listener.nic());
  near.peer = far.ref;
  far.peer = near.ref;
  near.peer_identity = listener.options().identity;
  far.peer_identity = at_target.peer;
  endpoint.dial()->pair = near.ref;
  if (accepted != nullptr) {
    accepted->open(far, at_target, {});
  } else {
    far.listener = &listener;
    listener.add_passive(far);
  }
}

void Connections::on_reply(EndpointImpl& endpoint, std::uint32_t attempt) {
  if (!endpoint.dial()->under_way || endpoint.dial()->attempt != attempt) return;
  endpoint.answered(endpoint.dial()->answer);
}

void Connections::on_give_up(EndpointImpl& endpoint, std::uint32_t attempt) {
  Dial& dial = *endpoint.dial();
  if (!dial.under_way || dial.attempt != attempt) return;
  if (QueuePair* const half_open = engine_.pairs().find(dial.pair))
    close(*half_open, ErrorCode::kConnectionLost);
  endpoint.answered(fail(ErrorCode::kDeadlineExceeded, "connect: no answer"));
}

// ---------------------------------------------------------------- end

void Connections::drop(QueuePair& pair, ErrorCode status) {
  EndpointImpl* const endpoint = pair.endpoint;
  for (const Ref ref : pair.delivering) {
    const Flight* const flight = engine_.flights().find(ref);
    if (flight == nullptr) continue;
    endpoint->queue_impl().deliver_later(endpoint->receive_completion(
        {.user_data = flight->receive.user_data, .flags = flight->receive.flags, .status = status}));
  }
  for (const QueuePair::Held& held : pair.held) {
    Flight* const flight = engine_.flights().find(held.flight);
    if (flight != nullptr) lose(*flight);
  }
  if (pair.listener != nullptr) pair.listener->remove_passive(pair);
  engine_.pairs().release(pair);
  if (endpoint != nullptr) endpoint->lose(status);
}

void Connections::close(QueuePair& pair, ErrorCode status) {
  const Ref peer = pair.peer;
  const HostState& from = *pair.host;
  const HostState& to = *pair.peer_host;
  // Behind everything that is on the wire already.
  const Ticks departure = std::max(pair.last_departure, engine_.now()) + 1;
  drop(pair, status);
  if (engine_.is_cut(from, to)) {
    engine_.events().push(engine_.now() + engine_.network().crash_detection, EventKind::kPeerLost, peer);
  } else {
    engine_.events().push(departure + engine_.one_way(from, to), EventKind::kDisconnect, peer);
  }
}

void Connections::break_both(QueuePair& pair) {
  QueuePair* const peer = engine_.pairs().find(pair.peer);
  drop(pair, ErrorCode::kConnectionLost);
  if (peer != nullptr) drop(*peer, ErrorCode::kConnectionLost);
}

void Connections::lose(Flight& flight) {
  flight.stage = Stage::kLost;
  if (flight.endpoint == nullptr) engine_.flights().release(flight);
}

void Connections::answer_stranger(Flight& flight) {
  const QueuePair* const source = engine_.pairs().find(flight.source);
  const bool is_awaited = flight.endpoint != nullptr;
  lose(flight);
  if (!is_awaited || source == nullptr) return;
  if (!source->peer_host->is_up) return;  // kPeerLost is on its way.
  engine_.events().push(engine_.now() + engine_.one_way(*source->peer_host, *source->host),
                        EventKind::kDisconnect, source->ref);
}

std::vector<Ref> Connections::ends_of(const HostState& host) {
  std::vector<Ref> ends;
  engine_.pairs().for_each_live([&](const QueuePair& pair) {
    if (pair.host == &host) ends.push_back(pair.ref);
  });
  return ends;
}

void Connections::crash(HostState& host) {
  if (!std::exchange(host.is_up, false)) return;
  for (const Ref ref : ends_of(host)) {
    QueuePair* const pair = engine_.pairs().find(ref);
    if (pair == nullptr) continue;  // The other end of one that was dropped (loopback).
    engine_.events().push(engine_.now() + engine_.network().crash_detection, EventKind::kPeerLost,
                          pair->peer);
    drop(*pair, ErrorCode::kConnectionLost);
  }
  const auto listeners = host.listeners;
  for (const auto& [port, listener] : listeners) listener->close();
  const auto regions = host.regions;
  for (const auto& [key, region] : regions) region->revoke();
  for (std::uint32_t i = 0; i < host.nic_count(); ++i) host.nic(i).forget_all();
}

void Connections::break_all(HostState& host) {
  for (const Ref ref : ends_of(host)) {
    if (QueuePair* const pair = engine_.pairs().find(ref)) break_both(*pair);
  }
}

}  // namespace yonder::fabric::sim
