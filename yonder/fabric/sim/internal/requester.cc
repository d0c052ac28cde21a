// Transport, the initiator's half: requests leave, responses come back.
#include <algorithm>

#include "yonder/fabric/sim/internal/endpoint.h"
#include "yonder/fabric/sim/internal/engine.h"
#include "yonder/fabric/sim/internal/queue.h"
#include "yonder/fabric/sim/internal/region.h"
#include "yonder/fabric/sim/internal/transport.h"

namespace yonder::fabric::sim {
namespace {

// What travels with the request: the payload, or the operands of an atomic.
std::uint64_t request_payload(const Flight& flight) {
  if (is_atomic(flight.op)) return 16;
  return carries_payload(flight.op) ? flight.length : 0;
}

// What travels back. Acknowledgements are short enough to be left out.
std::uint64_t response_payload(const Flight& flight) {
  return flight.op == Op::kRead && flight.status == ErrorCode::kOk ? flight.length : 0;
}

}  // namespace

// Registered local pieces are looked up by the NIC like remote ones; the region
// named by a local key may be gone (the application's mistake), then it costs
// nothing.
Penalty Transport::touch_local(QueuePair& pair, const Flight& flight, bool& far_memory) {
  Penalty penalty;
  for (const LocalPiece& piece : flight.pieces) {
    const RegionImpl* const region = piece.key == kUnregistered ? nullptr : engine_.find_local(piece.key);
    if (region == nullptr || piece.length == 0) continue;
    const auto offset = static_cast<std::uint64_t>(piece.data - region->memory().data());
    if (offset >= region->length() || piece.length > region->length() - offset) continue;
    penalty += pair.nic->touch_region(region->serial(), region->page_of(offset),
                                      region->pages(offset, piece.length));
    far_memory |= region->socket() != pair.nic->socket();
  }
  return penalty;
}

void Transport::launch(Flight& flight, QueuePair& pair, Ticks at) {
  flight.source = pair.ref;
  flight.target = pair.peer;
  flight.sequence = pair.next_sequence++;
  const Ticks departure = send(flight, pair, at);
  // Order within a connection: an inline request does not overtake one that waits
  // for its payload.
  pair.last_departure = std::max(departure, pair.last_departure + 1);
  flight.stage = Stage::kTravelling;
  if (is_lost(*pair.host, *pair.peer_host)) return retry_later(flight);
  engine_.events().push(pair.last_departure + travel_time(*pair.host, *pair.peer_host), EventKind::kArrive,
                        flight.ref);
}

bool Transport::is_lost(const HostState& from, const HostState& to) {
  return engine_.is_cut(from, to) || engine_.strikes(engine_.rates().loss);
}

Ticks Transport::travel_time(const HostState& from, const HostState& to) {
  const Ticks time = engine_.one_way(from, to);
  if (!engine_.strikes(engine_.rates().delay)) return time;
  return time + static_cast<Ticks>(
                    engine_.random().below(static_cast<std::uint64_t>(engine_.rates().max_delay) + 1));
}

Ticks Transport::send(Flight& flight, QueuePair& pair, Ticks at) {
  Outgoing message{.at = at, .unit = pair.unit, .is_read = flight.op == Op::kRead};
  message.pieces = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(flight.pieces.size()));
  message.wire_payload = request_payload(flight);
  message.penalty = pair.nic->touch_context(pair.serial);
  if (flight.endpoint != nullptr) {
    const std::uint32_t cpu_socket = flight.endpoint->queue_impl().socket();
    if (cpu_socket != pair.nic->socket()) message.penalty.unit += pair.nic->model().numa_mmio_unit;
    message.far_memory =
        !flight.pieces.empty() && flight.pieces[0].key == kUnregistered && cpu_socket != pair.nic->socket();
  }
  if (!flight.has_payload && !flight.pieces.empty()) {
    message.penalty += touch_local(pair, flight, message.far_memory);
    if (carries_payload(flight.op)) message.dma_bytes = flight.length;
  }
  return pair.nic->send_request(message);
}

void Transport::retry_later(Flight& flight) {
  engine_.events().push(engine_.now() + engine_.network().retransmit, EventKind::kRetransmit, flight.ref);
}

void Transport::on_retransmit(Flight& flight) {
  QueuePair* const source = engine_.pairs().find(flight.source);
  if (source == nullptr) return engine_.flights().release(flight);  // Given up, and its connection closed.
  if (++flight.losses > engine_.network().retries) {
    engine_.connections().lose(flight);
    return engine_.connections().close(*source, ErrorCode::kConnectionLost);
  }
  if (is_lost(*source->host, *source->peer_host)) return retry_later(flight);
  const Ticks departure = send(flight, *source, engine_.now());
  engine_.events().push(departure + travel_time(*source->host, *source->peer_host), EventKind::kArrive,
                        flight.ref);
}

void Transport::respond(Flight& flight, QueuePair& pair, Ticks at) {
  QueuePair* const source = engine_.pairs().find(flight.source);
  if (flight.endpoint == nullptr || source == nullptr) {
    // Nobody waits for the answer any more. A source that is gone has failed its
    // flights, so here it can only be one that was given up.
    return engine_.flights().release(flight);
  }
  flight.stage = Stage::kReturning;
  if (is_lost(*pair.host, *source->host)) return retry_later(flight);
  const Ticks wire = travel_time(*pair.host, *source->host);
  const std::uint64_t payload = response_payload(flight);
  if (payload == 0) {
    const NicModel& model = source->nic->model();
    return finish_at_initiator(
        flight, *source, at + wire + pair.nic->wire_time(0) + source->nic->scaled(model.response_latency));
  }
  const Ticks head = pair.nic->send_response(at, payload);
  // N1 of nic.h: only a short response that waits for nobody reserves the
  // initiator's link from here.
  constexpr std::uint64_t kShort = 512;
  if (payload <= kShort && head == at && at == engine_.now()) {
    return finish_at_initiator(flight, *source,
                               source->nic->receive_response(head + wire, source->unit, payload));
  }
  flight.begun = head + wire;
  engine_.events().push(std::max(flight.begun, engine_.now()), EventKind::kReturn, flight.ref);
}

void Transport::on_return(Flight& flight) {
  QueuePair* const source = engine_.pairs().find(flight.source);
  if (source == nullptr) return engine_.flights().release(flight);
  const Ticks done = source->nic->receive_response(flight.begun, source->unit, response_payload(flight));
  finish_at_initiator(flight, *source, std::max(done, engine_.now()));
}

void Transport::finish_at_initiator(Flight& flight, QueuePair& source, Ticks at) {
  const NicModel& model = source.nic->model();
  const bool far_cpu = flight.endpoint->queue_impl().socket() != source.nic->socket();
  at += source.nic->scaled(model.cqe_latency + (far_cpu ? model.numa_dma_latency : 0) + model.poll);
  if (flight.op == Op::kRead) at += flight.endpoint->host().scaled(flight.endpoint->bounce_cost(flight));
  // Completions of one connection come in order.
  source.last_completion = std::max(at, source.last_completion);
  engine_.events().push(source.last_completion, EventKind::kComplete, flight.ref);
}

void Transport::on_complete(Flight& flight) {
  if (engine_.strikes(engine_.rates().connection_break)) {
    return engine_.connections().break_both(*engine_.pairs().find(flight.source));
  }
  if (flight.status == ErrorCode::kOk && engine_.strikes(engine_.rates().completion_error / 2)) {
    flight.status = ErrorCode::kConnectionLost;
  }
  flight.endpoint->finish(flight);
}

}  // namespace yonder::fabric::sim
