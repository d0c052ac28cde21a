#include "yonder/fabric/sim/internal/endpoint.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/engine.h"
#include "yonder/fabric/sim/internal/queue.h"

namespace yonder::fabric::sim {
namespace {

void capture(Flight& flight, std::span<const LocalPiece> pieces) {
  flight.payload.clear();
  for (const LocalPiece& piece : pieces) {
    flight.payload.insert(flight.payload.end(), piece.data, piece.data + piece.length);
  }
  flight.has_payload = true;
}

}  // namespace

EndpointImpl::EndpointImpl(Engine& engine, HostState& host, QueueImpl& queue, const EndpointOptions& options,
                           std::uint32_t nic)
    : Endpoint(queue, EndpointId{engine.next_serial()}),
      engine_(engine),
      host_(host),
      queue_(queue),
      nic_(nic),
      reserved_(reservation(options)),
      default_timeout_(options.default_timeout),
      own_receives_(options.receive_depth),
      receives_(options.receive_queue != nullptr
                    ? &static_cast<SharedReceiveQueue*>(options.receive_queue)->buffers()
                    : &own_receives_) {
  const NicModel& model = host.nic(nic).model();
  limits_ = {.depth = options.depth,
             .receive_depth = options.receive_depth,
             .max_pieces = std::min(model.max_pieces, kMaxPieces),
             .max_inline = model.max_inline,
             .max_message = options.max_message,
             .max_transfer = kMaxTransferBytes};
  ref_ = engine_.endpoints().add(*this);
  batch_.reserve(options.depth);
  ++host_.made;
}

EndpointImpl::~EndpointImpl() {
  close();
  engine_.endpoints().remove(ref_);
  queue_.unreserve(reserved_);
  --host_.made;
}

Nic& EndpointImpl::nic() const { return host_.nic(nic_); }

// ---------------------------------------------------------------- posting

ErrorCode EndpointImpl::refusal(const WorkRequest& request, Ticks deadline) const {
  if (const ErrorCode wrong = check_request(request, limits_); wrong != ErrorCode::kOk) return wrong;
  if (state_ == EndpointState::kBroken) return ErrorCode::kConnectionLost;
  return deadline <= engine_.now() ? ErrorCode::kDeadlineExceeded : ErrorCode::kOk;
}

void EndpointImpl::refuse(const WorkRequest& request, ErrorCode status) {
  queue_.deliver_later({.user_data = request.user_data,
                        .endpoint = id(),
                        .status = status,
                        .op = request.op,
                        .flags = request.flags});
  engine_.count_request();
}

Flight& EndpointImpl::make_flight(const WorkRequest& request) {
  Flight& flight = engine_.flights().acquire();
  flight.op = request.op;
  flight.flags = request.flags;
  flight.immediate = request.immediate;
  flight.user_data = request.user_data;
  flight.remote = request.remote;
  flight.operand = request.operand;
  flight.compare = request.compare;
  flight.length = is_atomic(request.op) ? 8 : local_bytes(request);
  flight.pieces.assign(request.local.begin(), request.local.end());
  flight.has_payload = false;
  if (has(request.flags, RequestFlags::kInline)) capture(flight, request.local);
  flight.stage = Stage::kWaiting;
  flight.executed = false;
  flight.losses = 0;
  flight.status = ErrorCode::kOk;
  flight.value = 0;
  flight.region = {};
  flight.moved = 0;
  append(flight);
  return flight;
}

Result<std::size_t> EndpointImpl::do_post(std::span<const WorkRequest> requests) {
  if (state_ == EndpointState::kClosed) return fail(ErrorCode::kClosed, "post on a closed endpoint");
  const std::size_t room = queue_.is_full() ? 0 : limits_.depth - outstanding_;
  if (room == 0 && !requests.empty()) return fail(ErrorCode::kQueueFull, "post", limits_.depth);
  const std::size_t count = std::min(room, requests.size());
  batch_.clear();
  Ticks cpu = 0;
  for (const WorkRequest& request : requests.first(count)) {
    const Ticks deadline = request.deadline.is_default() ? engine_.after(default_timeout_)
                                                         : to_ticks(request.deadline.instant());
    if (const ErrorCode status = refusal(request, deadline); status != ErrorCode::kOk) {
      refuse(request, status);
      continue;
    }
    Flight& flight = make_flight(request);
    flight.deadline = deadline;
    arm_expiry(deadline);
    cpu += cpu_cost(flight);
    if (state_ == EndpointState::kOpen) batch_.push_back(&flight);
  }
  if (!batch_.empty()) ring_doorbell(cpu);
  return count;
}

Ticks EndpointImpl::cpu_cost(const Flight& flight) const {
  const NicModel& model = nic().model();
  Ticks cost = model.post_request;
  if (flight.pieces.size() > 1) cost += static_cast<Ticks>(flight.pieces.size() - 1) * model.post_piece;
  if (flight.has_payload) return cost + static_cast<Ticks>(flight.length) * model.inline_byte;
  return carries_payload(flight.op) ? cost + bounce_cost(flight) : cost;
}

// Unregistered pieces are copied through registered buffers: before a request that
// sends them, after one that fills them.
Ticks EndpointImpl::bounce_cost(const Flight& flight) const {
  std::uint64_t bytes = 0;
  for (const LocalPiece& piece : flight.pieces) bytes += piece.key == kUnregistered ? piece.length : 0;
  return static_cast<Ticks>(bytes) * nic().model().bounce_byte;
}

void EndpointImpl::ring_doorbell(Ticks cpu) {
  const NicModel& model = nic().model();
  const bool far_cpu = queue_.socket() != nic().socket();
  Ticks at = queue_.spend(cpu + model.doorbell) +
             host_.scaled(model.mmio_latency + (far_cpu ? model.numa_mmio_latency : 0));
  // A single entry travels with the doorbell itself; a list must be fetched.
  const Ticks gap = batch_.size() > 1 ? host_.scaled(model.fetch_request) : 0;
  if (batch_.size() > 1) at += host_.scaled(model.fetch_latency);
  for (Flight* flight : batch_) {
    engine_.transport().launch(*flight, *pair_, at);
    at += gap;
  }
}

Result<void> EndpointImpl::post_receive(std::span<const ReceiveRequest> receives) {
  if (state_ == EndpointState::kClosed)
    return fail(ErrorCode::kClosed, "post a receive on a closed endpoint");
  if (receives_ != &own_receives_) {
    return fail(ErrorCode::kInvalidArgument, "post a receive: this endpoint takes from a shared queue");
  }
  if (!own_receives_.push(receives))
    return fail(ErrorCode::kQueueFull, "post a receive", limits_.receive_depth);
  if (state_ == EndpointState::kBroken) {
    flush_receives(ErrorCode::kConnectionLost);
  } else if (pair_ != nullptr) {
    engine_.transport().on_receive_posted(*pair_);
  }
  return {};
}

// ---------------------------------------------------------------- the list

void EndpointImpl::append(Flight& flight) {
  flight.endpoint = this;
  flight.previous = last_;
  flight.next = nullptr;
  (last_ != nullptr ? last_->next : first_) = &flight;
  last_ = &flight;
  ++outstanding_;
}

void EndpointImpl::remove(Flight& flight) {
  (flight.previous != nullptr ? flight.previous->next : first_) = flight.next;
  (flight.next != nullptr ? flight.next->previous : last_) = flight.previous;
  flight.endpoint = nullptr;
}

void EndpointImpl::arm_expiry(Ticks deadline) {
  // One event per endpoint, not per request: it is set for the earliest deadline
  // seen when it was set, and looks again when it comes.
  if (deadline == kNever || (expiry_ != 0 && expiry_ <= deadline)) return;
  expiry_ = deadline;
  engine_.events().push(deadline, EventKind::kExpire, ref_);
}

void EndpointImpl::expire() {
  if (expiry_ == 0 || expiry_ > engine_.now()) return;  // An earlier one was set meanwhile.
  expiry_ = 0;
  Ticks earliest = kNever;
  for (Flight* flight = first_; flight != nullptr;) {
    Flight* const next = flight->next;
    if (flight->deadline <= engine_.now()) {
      const bool wants_receive = flight->stage == Stage::kHeld && needs_receive(flight->op);
      give_up(*flight, wants_receive ? ErrorCode::kReceiverNotReady : ErrorCode::kDeadlineExceeded);
    } else {
      earliest = std::min(earliest, flight->deadline);
    }
    flight = next;
  }
  arm_expiry(earliest);
}

// ---------------------------------------------------------------- ends

Completion EndpointImpl::completion_of(const Flight& flight) const {
  const bool ok = flight.status == ErrorCode::kOk;
  return {.user_data = flight.user_data,
          .value = flight.value,
          .endpoint = id(),
          .length = ok ? static_cast<std::uint32_t>(flight.length) : 0,
          .status = flight.status,
          .op = flight.op,
          .flags = flight.flags};
}

void EndpointImpl::count_ended() {
  outstanding_ -= 1 + unsignalled_done_;
  unsignalled_done_ = 0;
  engine_.count_request();
}

void EndpointImpl::finish(Flight& flight) {
  remove(flight);
  const Completion completion = completion_of(flight);
  if (flight.op == Op::kRead) queue_.have_spent(bounce_cost(flight));
  engine_.flights().release(flight);
  engine_.trace((completion.value << 16) ^ static_cast<std::uint64_t>(completion.status));
  if (completion.ok() && has(completion.flags, RequestFlags::kUnsignalled)) {
    ++unsignalled_done_;
    engine_.count_request();
    return;
  }
  count_ended();
  queue_.deliver(completion);
}

void EndpointImpl::give_up(Flight& flight, ErrorCode status) {
  flight.status = status;
  queue_.deliver_later(completion_of(flight));
  flight.status = ErrorCode::kOk;
  remove(flight);
  count_ended();
  const bool has_no_effect_left =
      flight.stage == Stage::kWaiting || flight.stage == Stage::kReturning || flight.stage == Stage::kLost;
  if (has_no_effect_left) {
    engine_.flights().release(flight);
  } else if (carries_payload(flight.op) && !flight.has_payload) {
    // The bytes are on the wire already; the caller may reuse the buffers now.
    capture(flight, flight.pieces);
  }
}

void EndpointImpl::give_up_all(ErrorCode status) {
  while (first_ != nullptr) give_up(*first_, status);
  outstanding_ = unsignalled_done_ = 0;
}

// Those that have not left yet wait for the next connection.
void EndpointImpl::give_up_sent(ErrorCode status) {
  for (Flight* flight = first_; flight != nullptr;) {
    Flight* const next = flight->next;
    if (flight->stage != Stage::kWaiting) give_up(*flight, status);
    flight = next;
  }
  outstanding_ -= unsignalled_done_;
  unsignalled_done_ = 0;
}

void EndpointImpl::flush_receives(ErrorCode status) {
  while (!own_receives_.empty()) {
    const ReceiveRequest receive = own_receives_.pop();
    queue_.deliver_later({.user_data = receive.user_data,
                          .endpoint = id(),
                          .status = status,
                          .op = Op::kReceive,
                          .flags = receive.flags});
  }
}

Completion EndpointImpl::receive_completion(const Arrival& arrival) const {
  const bool ok = arrival.status == ErrorCode::kOk;
  return {.user_data = arrival.user_data,
          .endpoint = id(),
          .length = ok ? static_cast<std::uint32_t>(arrival.length) : 0,
          .immediate = arrival.immediate,
          .status = arrival.status,
          .op = arrival.op,
          .flags = arrival.flags};
}

void EndpointImpl::close() {
  if (state_ == EndpointState::kClosed) return;
  state_ = EndpointState::kClosed;
  give_up_all(ErrorCode::kCancelled);
  flush_receives(ErrorCode::kCancelled);
  if (pair_ != nullptr) engine_.connections().close(*pair_, ErrorCode::kCancelled);
  if (dial_) {
    dial_->under_way = false;
    if (QueuePair* half_open = engine_.pairs().find(dial_->pair)) {
      engine_.connections().close(*half_open, ErrorCode::kCancelled);
    }
  }
}

// ---------------------------------------------------------------- the connection

void EndpointImpl::open(QueuePair& pair, const Agreement& agreement, std::span<const std::byte> greeting) {
  pair_ = &pair;
  pair.endpoint = this;
  pair.receives = receives_;
  agreement_ = agreement;
  greeting_.assign(greeting.begin(), greeting.end());
  state_ = EndpointState::kOpen;
  batch_.clear();
  for (Flight* flight = first_; flight != nullptr; flight = flight->next) batch_.push_back(flight);
  if (!batch_.empty()) ring_doorbell(0);
  engine_.transport().on_receive_posted(pair);
}

void EndpointImpl::lose(ErrorCode status) {
  pair_ = nullptr;
  if (state_ == EndpointState::kClosed) return;
  give_up_sent(status);
  if (receives_ == &own_receives_) flush_receives(status);
  const bool redials = dial_ && dial_->options.reconnect && host_.is_up;
  state_ = redials ? EndpointState::kReconnecting : EndpointState::kBroken;
  if (redials) {
    dial_->backoff = dial_->options.min_backoff;
    dial_later();
  } else {
    give_up_all(status);
  }
}

void EndpointImpl::dial_later() {
  engine_.events().push(engine_.after(dial_->backoff), EventKind::kDial, ref_);
  dial_->backoff = std::min(dial_->backoff * 2, dial_->options.max_backoff);
}

void EndpointImpl::answered(Result<void> answer) {
  dial_->under_way = false;
  dial_->answer = answer;
  if (answer) {
    dial_->first = false;
    QueuePair* const pair = engine_.pairs().find(dial_->pair);
    dial_->pair = {};
    if (pair == nullptr) return lose(ErrorCode::kConnectionLost);  // Broke while the answer travelled.
    return open(*pair, dial_->agreement, dial_->greeting);
  }
  if (dial_->first) return;
  // A target that restarts refuses, or says nothing, for a while; other answers
  // will not change by asking again.
  const ErrorCode code = answer.error().code();
  const bool may_change = code == ErrorCode::kConnectionRefused || code == ErrorCode::kDeadlineExceeded ||
                          code == ErrorCode::kResourceExhausted;
  if (may_change && host_.is_up) return dial_later();
  state_ = EndpointState::kBroken;
  give_up_all(ErrorCode::kConnectionLost);
}

}  // namespace yonder::fabric::sim
