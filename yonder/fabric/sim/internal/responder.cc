// Transport, the target's half: requests arrive, are checked, and take effect.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/endpoint.h"
#include "yonder/fabric/sim/internal/engine.h"
#include "yonder/fabric/sim/internal/queue.h"
#include "yonder/fabric/sim/internal/region.h"
#include "yonder/fabric/sim/internal/transport.h"

namespace yonder::fabric::sim {
namespace {

constexpr std::uint32_t kLineBytes = 64;

// Copies between `memory` and bytes [offset, offset + length) of the flight's
// local pieces (or of its own payload).
void copy_local(Flight& flight, std::byte* memory, std::uint64_t offset, std::uint64_t length,
                bool to_memory) {
  if (flight.has_payload) {
    std::memcpy(memory, flight.payload.data() + offset, length);
    return;
  }
  for (const LocalPiece& piece : flight.pieces) {
    if (offset >= piece.length) {
      offset -= piece.length;
      continue;
    }
    const std::uint64_t part = std::min<std::uint64_t>(length, piece.length - offset);
    if (to_memory) {
      std::memcpy(memory, piece.data + offset, part);
    } else {
      std::memcpy(piece.data + offset, memory, part);
    }
    memory += part;
    length -= part;
    offset = 0;
    if (length == 0) return;
  }
}

}  // namespace

// ---------------------------------------------------------------- arrival

void Transport::on_arrive(Flight& flight) {
  QueuePair* const pair = engine_.pairs().find(flight.target);
  if (pair == nullptr) return engine_.connections().answer_stranger(flight);
  if (flight.sequence < pair->expected) {
    // Sent again because the response was lost: answered, not executed, again.
    YONDER_CHECK(flight.executed, "only an answered request is sent again");
    return respond(flight, *pair, engine_.now());
  }
  const Ref target = pair->ref;
  if (flight.sequence != pair->expected || !accept(flight, *pair)) return hold(flight, *pair);
  if (engine_.pairs().find(target) == nullptr) return;  // The access broke the connection.
  ++pair->expected;
  release_held(*pair);
}

void Transport::hold(Flight& flight, QueuePair& pair) {
  flight.stage = Stage::kHeld;
  const auto place = std::ranges::upper_bound(pair.held, flight.sequence, {}, &QueuePair::Held::sequence);
  pair.held.insert(place, {flight.sequence, flight.ref});
}

void Transport::release_held(QueuePair& pair) {
  const Ref self = pair.ref;
  // The front stays in place until it is accepted: it may want a receive again.
  while (!pair.held.empty() && pair.held.front().sequence == pair.expected) {
    Flight* const flight = engine_.flights().find(pair.held.front().flight);
    YONDER_CHECK(flight != nullptr, "a flight that is held is not released");
    if (!accept(*flight, pair)) return;
    if (engine_.pairs().find(self) == nullptr) return;  // The access broke the connection.
    pair.held.erase(pair.held.begin());
    ++pair.expected;
  }
}

void Transport::on_receive_posted(QueuePair& pair) { release_held(pair); }

ErrorCode Transport::find_region(const Flight& flight, const QueuePair& pair, RegionImpl*& region) const {
  const auto found = pair.host->regions.find(flight.remote.key.value);
  if (found == pair.host->regions.end()) return ErrorCode::kUnknownKey;
  const RegionImpl& candidate = *found->second;
  if (candidate.tenant() != TenantId{0} && candidate.tenant() != pair.peer_identity.tenant) {
    return ErrorCode::kTenantDenied;
  }
  const ErrorCode access =
      check_access(flight.op, flight.remote.offset, flight.length, candidate.length(), candidate.rights());
  if (access == ErrorCode::kOk) region = found->second;
  return access;
}

bool Transport::accept(Flight& flight, QueuePair& pair) {
  const bool takes_receive = needs_receive(flight.op);
  if (takes_receive && (pair.receives == nullptr || pair.receives->empty())) return false;
  Penalty penalty = pair.nic->touch_context(pair.serial);
  RegionImpl* region = nullptr;
  if (flight.op == Op::kSend) {
    if (pair.receives->front().buffer.length < flight.length) {
      refuse(flight, pair, ErrorCode::kMessageTooLong, penalty);
      return true;
    }
  } else if (const ErrorCode status = find_region(flight, pair, region); status != ErrorCode::kOk) {
    refuse(flight, pair, status, penalty);
    return true;
  } else if (region->is_reregistering(engine_.now())) {
    const Ref self = flight.ref;
    flight.stage = Stage::kLost;
    engine_.connections().break_both(pair);
    // Unless it was held or waited for, nobody has released it on the way.
    if (Flight* const left = engine_.flights().find(self)) engine_.flights().release(*left);
    return true;
  }
  // The half of the injected errors that strikes before the effect.
  if (engine_.strikes(engine_.rates().completion_error / 2)) {
    refuse(flight, pair, ErrorCode::kConnectionLost, penalty);
    return true;
  }
  if (takes_receive) {
    flight.receive = pair.receives->pop();
    pair.delivering.push_back(flight.ref);
  }
  plan_effect(flight, pair, region, penalty);
  return true;
}

void Transport::refuse(Flight& flight, QueuePair& pair, ErrorCode status, Penalty penalty) {
  flight.status = status;
  flight.executed = true;
  const Ticks known = pair.nic->receive_refused(engine_.now(), pair.unit, penalty);
  respond(flight, pair, std::max(known, pair.effect_end));
}

// ---------------------------------------------------------------- effect

// In what pieces the bytes move. Units end at multiples of unit_bytes in memory
// (counted from the region's first aligned word), so no aligned word is ever torn.
void Transport::choose_units(Flight& flight, std::uint32_t skew) {
  const FaultRates& rates = engine_.rates();
  const bool torn = engine_.strikes(rates.tear);
  flight.unit_bytes = torn ? rates.tear_bytes : kLineBytes;
  flight.shuffle = 0;
  flight.skew = static_cast<std::uint32_t>((flight.op == Op::kSend ? 0 : flight.remote.offset + skew) %
                                           flight.unit_bytes);
  if (!torn) return;
  // Multiples of a number without common divisor visit every unit once.
  const std::uint64_t units = units_of(flight);
  do {
    flight.shuffle = static_cast<std::uint32_t>(engine_.random()() | 1);
  } while (std::gcd<std::uint64_t>(flight.shuffle, units) != 1);
}

std::uint64_t Transport::units_of(const Flight& flight) const {
  return (flight.skew + flight.length + flight.unit_bytes - 1) / flight.unit_bytes;
}

Effect Transport::plan_on_nic(const Flight& flight, QueuePair& pair, std::uint32_t units, bool far_memory,
                              Penalty penalty) {
  const Ticks now = engine_.now();
  if (is_atomic(flight.op)) return pair.nic->receive_atomic(now, pair.unit, far_memory, penalty);
  if (flight.op == Op::kRead) {
    return pair.nic->receive_read(now, pair.unit, flight.length, units, far_memory, penalty);
  }
  return pair.nic->receive_write(now, pair.unit, flight.length, units, far_memory, penalty);
}

void Transport::plan_effect(Flight& flight, QueuePair& pair, RegionImpl* region, Penalty penalty) {
  choose_units(flight, region != nullptr ? region->skew() : 0);
  const auto units = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, units_of(flight)));
  bool far_memory = false;
  Ticks fault = 0;
  if (region != nullptr) {
    flight.region = region->ref();
    const std::uint64_t offset = flight.remote.offset;
    penalty += pair.nic->touch_region(region->serial(), region->page_of(offset),
                                      region->pages(offset, flight.length));
    const Ticks fault_time = pair.nic->scaled(pair.nic->model().odp_fault);
    fault = region->page_in(offset, flight.length, engine_.now(), fault_time) - engine_.now();
    far_memory = region->socket() != pair.nic->socket();
  }
  const Effect effect = plan_on_nic(flight, pair, units, far_memory, penalty);
  flight.interval = flight.shuffle != 0 ? engine_.rates().tear_pause : effect.interval;
  // A page fault holds this connection up, not the NIC.
  flight.begun = std::max(effect.start + fault, pair.effect_end + 1);
  pair.effect_end = flight.begun + static_cast<Ticks>(units - 1) * flight.interval;
  flight.stage = Stage::kExecuting;
  engine_.events().push(flight.begun, EventKind::kStep, flight.ref);
}

void Transport::execute_atomic(Flight& flight, std::byte* word) {
  std::memcpy(&flight.value, word, 8);
  std::uint64_t after = flight.value;
  if (flight.op == Op::kFetchAdd) {
    after += flight.operand;
  } else if (flight.value == flight.compare) {
    after = flight.operand;
  }
  std::memcpy(word, &after, 8);
}

void Transport::move_unit(Flight& flight, std::byte* memory) {
  const std::uint64_t units = units_of(flight);
  const std::uint64_t step = flight.moved++;
  const std::uint64_t unit = flight.shuffle == 0 ? step : step * flight.shuffle % units;
  const std::uint64_t begin = unit == 0 ? 0 : unit * flight.unit_bytes - flight.skew;
  const std::uint64_t end =
      std::min<std::uint64_t>((unit + 1) * flight.unit_bytes - flight.skew, flight.length);
  if (flight.op == Op::kRead && flight.endpoint == nullptr) return;  // F2: nobody reads any more.
  copy_local(flight, memory + begin, begin, end - begin, flight.op != Op::kRead);
}

void Transport::on_step(Flight& flight) {
  QueuePair* const pair = engine_.pairs().find(flight.target);
  if (pair == nullptr) return engine_.connections().answer_stranger(flight);
  std::byte* memory = flight.receive.buffer.data;
  if (flight.op != Op::kSend) {
    const RegionImpl* const region = engine_.regions().find(flight.region);
    if (region == nullptr) {
      flight.status = ErrorCode::kRegionRevoked;
      return end_effect(flight, *pair);
    }
    memory = region->at(flight.remote.offset);
  }
  if (is_atomic(flight.op)) {
    execute_atomic(flight, memory);
    return end_effect(flight, *pair);
  }
  const std::uint64_t units = units_of(flight);
  while (flight.moved < units) {
    move_unit(flight, memory);
    if (flight.moved == units) break;
    const Ticks next = engine_.now() + flight.interval;
    if (!engine_.may_run_at(next)) return engine_.events().push(next, EventKind::kStep, flight.ref);
    engine_.advance_to(next);
  }
  end_effect(flight, *pair);
}

void Transport::end_effect(Flight& flight, QueuePair& pair) {
  flight.executed = true;
  const bool delivers = needs_receive(flight.op);
  const Arrival arrival{.user_data = flight.receive.user_data,
                        .flags = flight.receive.flags,
                        .length = flight.length,
                        .immediate = flight.immediate,
                        .op = flight.op == Op::kSend ? Op::kReceive : Op::kReceiveImm,
                        .status = flight.status};
  if (delivers) std::erase(pair.delivering, flight.ref);
  EndpointImpl* const receiver = pair.endpoint;
  // The bytes of a read leave while later ones are still being fetched.
  respond(flight, pair, flight.op == Op::kRead ? flight.begun : engine_.now());
  if (delivers) receiver->queue_impl().deliver(receiver->receive_completion(arrival));
}

}  // namespace yonder::fabric::sim
