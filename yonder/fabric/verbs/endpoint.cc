#include "yonder/fabric/verbs/internal/endpoint.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"

namespace yonder::fabric::verbs {

Result<Limits> VerbsEndpoint::limits_for(const Device& device, const EndpointOptions& options) {
  if (options.depth == 0 || options.max_message > kMaxTransferBytes) {
    return fail(ErrorCode::kInvalidArgument, "make an endpoint: depth or max_message", options.depth);
  }
  const auto most = static_cast<std::uint32_t>(std::max(device.attributes().max_qp_wr, 1));
  return Limits{.depth = std::min(options.depth, most),
                .receive_depth = options.receive_queue != nullptr ? 0 : std::min(options.receive_depth, most),
                .max_pieces = device.max_pieces(),
                .max_inline = SendRing::kStagingBytes,
                .max_message = options.max_message,
                .max_transfer = kMaxTransferBytes};
}

VerbsEndpoint::VerbsEndpoint(Core& core, VerbsQueue& queue, const EndpointOptions& options,
                             const Limits& limits)
    : Endpoint(queue, core.next_endpoint_id()),
      core_(core),
      verbs_queue_(queue),
      options_(options),
      limits_(limits),
      shared_(static_cast<VerbsReceiveQueue*>(options.receive_queue)),
      ring_(*this, {.depth = limits.depth, .max_pieces = limits.max_pieces}),
      receives_(limits.receive_depth) {
  for (ReceiveSlot& slot : receives_) slot.endpoint = this;
}

Result<void> VerbsEndpoint::allocate() {
  YONDER_TRY(memory, os::Mapping::anonymous({.bytes = ring_.staging_bytes()}));
  YONDER_TRY(registration,
             register_with_nic(*core_.device, memory.data(), ring_.staging_bytes(),
                               reinterpret_cast<std::uint64_t>(memory.data()), IBV_ACCESS_LOCAL_WRITE));
  staging_ = std::move(memory);
  staging_registration_ = registration;
  ring_.set_staging(staging_.data());
  return {};
}

QpSpec VerbsEndpoint::spec() const {
  return {.cq = verbs_queue_.cq(),
          .srq = shared_ != nullptr ? shared_->srq() : nullptr,
          .depth = limits_.depth,
          .receive_depth = std::max(limits_.receive_depth, 1u)};
}

Link::Parts VerbsEndpoint::link_parts(std::shared_ptr<Bell> bell) {
  return {*core_.service, core_.device, std::move(bell), spec(), {}};
}

VerbsEndpoint::~VerbsEndpoint() { close(); }

EndpointState VerbsEndpoint::state() const {
  switch (phase_) {
    case Phase::kOpen:
    case Phase::kResuming:  // The connection stands; only its queue pair is renewed.
      return EndpointState::kOpen;
    case Phase::kReconnecting:
      return EndpointState::kReconnecting;
    case Phase::kBroken:
      return EndpointState::kBroken;
    case Phase::kClosed:
      return EndpointState::kClosed;
  }
  return EndpointState::kClosed;
}

void VerbsEndpoint::close() {
  if (phase_ == Phase::kClosed) return;
  if (link_ != nullptr) end_link();
  retire_ended(Link::Farewell::kTellPeer);
  if (dialing_ != nullptr) std::exchange(dialing_, nullptr)->retire(Link::Farewell::kSilent);
  if (first_link_ != nullptr) std::exchange(first_link_, nullptr)->retire(Link::Farewell::kTellPeer);
  if (seat_ != nullptr) seat_->close();
  phase_ = Phase::kClosed;
  fail_requests(ErrorCode::kCancelled);
  fail_receives(ErrorCode::kCancelled);
  verbs_queue_.detach(*this);
  verbs_queue_.release(limits_.depth + limits_.receive_depth);
  if (staging_registration_ != nullptr) core_.device->library().dereg_mr(staging_registration_);
  staging_registration_ = nullptr;
}

// ---------------------------------------------------------------- the NIC's word

void VerbsEndpoint::on_send_done(SendSlot& slot, const ibv_wc& wc) {
  if (wc.status == IBV_WC_SUCCESS) [[likely]] {
    retire_until(slot.sequence + 1);
    return;
  }
  last_flushed_ = &slot;
  note_failure();
  if (wc.status == IBV_WC_WR_FLUSH_ERR || culprit_ != nullptr) return;
  culprit_ = &slot;
  culprit_status_ = wc.status;
  // The peer answered (or was given up on) this request, and it answers in
  // order: all before it are done. An error of our own side says nothing of them.
  const bool is_local = wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_LEN_ERR ||
                        wc.status == IBV_WC_LOC_QP_OP_ERR;
  if (!is_local) retire_until(slot.sequence);
}

void VerbsEndpoint::on_receive_done(ReceiveSlot& slot, const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) {
    last_flushed_receive_ = &slot;
    note_failure();
    return;
  }
  // Receives of one queue pair complete in the order they were posted.
  YONDER_DCHECK(&slot == &receives_[receives_head_ % receives_.size()], "receives complete in order");
  ++receives_head_;
  ++messages_received_;
  const Completion completion = slot.received(wc, id());
  slot.release(receive_parts());
  verbs_queue_.end(completion);
}

void VerbsEndpoint::note_failure() {
  has_failed_ = true;
  verbs_queue_.note_failure();
}

// ---------------------------------------------------------------- completing

void VerbsEndpoint::retire_until(std::uint64_t end) {
  while (ring_.head() < end) {
    SendSlot& slot = ring_.front();
    if (slot.state == SlotState::kPosted) succeed(slot);
    if (slot.state == SlotState::kRejected) fail_slot(slot, slot.status);
    ring_.pop();
  }
  if (rejected_ != 0) complete_rejected();
  pop_done();
}

void VerbsEndpoint::succeed(SendSlot& slot) {
  if (slot.op == Op::kSend || slot.op == Op::kWriteImm) ++messages_done_;
  Completion completion{.user_data = slot.user_data,
                        .endpoint = id(),
                        .length = slot.length,
                        .op = slot.op,
                        .flags = slot.flags};
  if (is_atomic(slot.op)) {
    std::memcpy(&completion.value, slot.staging, 8);
  } else if (slot.scatter_from != nullptr) {
    const std::byte* from = slot.scatter_from;
    for (const ibv_sge& piece : slot.pieces) {
      if (piece.length != 0) std::memcpy(reinterpret_cast<void*>(piece.addr), from, piece.length);
      from += piece.length;
    }
  }
  release(slot);
  slot.state = SlotState::kDone;
  if (slot.is_silent()) {
    verbs_queue_.end_silently();
  } else {
    verbs_queue_.end(completion);
  }
}

void VerbsEndpoint::fail_slot(SendSlot& slot, ErrorCode code) {
  if (slot.state == SlotState::kRejected) --rejected_;
  release(slot);
  slot.state = SlotState::kDone;
  verbs_queue_.end(
      {.user_data = slot.user_data, .endpoint = id(), .status = code, .op = slot.op, .flags = slot.flags});
}

void VerbsEndpoint::release(SendSlot& slot) {
  if (slot.bounce) core_.pool.give(std::exchange(slot.bounce, {}));
  for (ibv_mr* registration : slot.temporary) core_.device->library().dereg_mr(registration);
  slot.temporary.clear();
}

void VerbsEndpoint::pop_done() {
  while (!ring_.empty() && ring_.front().state == SlotState::kDone) ring_.pop();
  unposted_ = std::max(unposted_, ring_.head());
}

// Requests that failed before they were posted complete in their turn; those
// ahead that will not be reported do not hold them up.
void VerbsEndpoint::complete_rejected() {
  for (std::uint64_t i = ring_.head(); i < ring_.tail() && rejected_ != 0; ++i) {
    SendSlot& slot = ring_.at(i);
    const bool awaits_report = slot.state == SlotState::kPosted && !slot.is_silent();
    if (awaits_report || slot.state == SlotState::kQueued || slot.state == SlotState::kRefused) break;
    if (slot.state == SlotState::kRejected) fail_slot(slot, slot.status);
  }
  pop_done();
}

void VerbsEndpoint::fail_requests(ErrorCode code) {
  for (std::uint64_t i = ring_.head(); i < ring_.tail(); ++i) {
    SendSlot& slot = ring_.at(i);
    if (slot.state == SlotState::kDone) continue;
    fail_slot(slot, slot.state == SlotState::kRejected ? slot.status : code);
  }
  pop_done();
}

void VerbsEndpoint::fail_receives(ErrorCode code) {
  for (; receives_head_ < receives_tail_; ++receives_head_) {
    ReceiveSlot& slot = receives_[receives_head_ % receives_.size()];
    slot.release(receive_parts());
    verbs_queue_.end(slot.failed(code, id()));
  }
}

}  // namespace yonder::fabric::verbs
