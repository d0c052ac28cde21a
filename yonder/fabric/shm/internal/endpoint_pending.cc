// Requests that wait, and memory that the target serves.
#include <algorithm>

#include "yonder/fabric/shm/internal/endpoint.h"

namespace yonder::fabric::shm {
namespace {

std::uint64_t transfer_bytes(const WorkRequest& request) {
  return is_atomic(request.op) ? 8 : local_bytes(request);
}

}  // namespace

ShmEndpoint::Outcome ShmEndpoint::finish(Pending& pending, ErrorCode status, std::uint64_t length,
                                         std::uint64_t value) {
  pending.completed = true;
  complete(pending.request, status, length, value);
  return Outcome::kDone;
}

void ShmEndpoint::ask(RegionKey key) {
  if (asked_) return;
  asked_ = link_->ask(key);
  asked_key_ = key;
}

void ShmEndpoint::on_resolved(Mail& mail) {
  const ResolvedPacket& resolved = mail.resolved;
  asked_ = false;
  if (resolved.status == ErrorCode::kOk) {
    Attachment region{.key = resolved.key.value, .length = resolved.length, .rights = resolved.rights};
    if (resolved.direct) {
      region.kind = Attachment::Kind::kDirect;
      region.base =
          mail.mapping.valid() ? mail.mapping.data() : reinterpret_cast<std::byte*>(resolved.address);
      region.word = &link_->parts().peer_state.region(resolved.slot);
      region.state = resolved.state;
      region.hazard = hazard_of(resolved.slot, resolved.state);
    }
    keys_.insert(region, std::move(mail.mapping));
    return;
  }
  if (pending_.all_issued()) return;
  Pending& pending = pending_.next_to_issue();
  if (pending.completed || pending.request.op == Op::kSend || pending.request.remote.key != asked_key_)
    return;
  const bool gone = resolved.status == ErrorCode::kUnknownKey && pending.was_stale;
  finish(pending, gone ? ErrorCode::kRegionRevoked : resolved.status);
}

// ---------------------------------------------------------------- one request

ShmEndpoint::Outcome ShmEndpoint::step_one_sided(Pending& pending, std::uint32_t position) {
  const WorkRequest& request = pending.request;
  const Attachment* const region = keys_.find(request.remote.key);
  if (region == nullptr) {
    ask(request.remote.key);
    return Outcome::kBlocked;
  }
  if (region->kind == Attachment::Kind::kServed) return step_served(pending, position);
  if (has_served()) return Outcome::kBlocked;
  const Outcome outcome =
      request.op == Op::kWriteImm ? write_and_announce(request, *region) : access(request, *region);
  if (outcome == Outcome::kDone) {
    pending.completed = true;
  } else if (outcome == Outcome::kStale) {
    pending.was_stale = true;
    keys_.erase(request.remote.key);
    ask(request.remote.key);
    return Outcome::kBlocked;
  }
  return outcome;
}

ShmEndpoint::Outcome ShmEndpoint::step(Pending& pending, std::uint32_t position) {
  if (pending.status != ErrorCode::kOk && pending.outstanding == 0) return finish(pending, pending.status);
  if (pending.request.op != Op::kSend) return step_one_sided(pending, position);
  if (has_served()) return Outcome::kBlocked;
  const Outcome outcome = try_send(pending.request);
  pending.completed = outcome == Outcome::kDone;
  return outcome;
}

// ---------------------------------------------------------------- served memory

bool ShmEndpoint::issue_part(Pending& pending, std::uint32_t position) {
  if (next_request_ - next_reply_ == kSlots) return false;
  const WorkRequest& request = pending.request;
  const std::uint32_t slot = next_request_ % kSlots;
  const std::uint64_t left = transfer_bytes(request) - pending.issued;
  const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kSlotBytes));
  const bool is_write = request.op == Op::kWrite || request.op == Op::kWriteImm;
  if (is_write) gather(link_->slot_data(true, slot), request.local, pending.issued, length);
  ServeRequest& cell = link_->our_lane().requests[slot];
  cell.op = static_cast<std::uint8_t>(is_write ? Op::kWrite : request.op);
  cell.key = request.remote.key.value;
  cell.offset = request.remote.offset + pending.issued;
  cell.operand = request.operand;
  cell.compare = request.compare;
  cell.state = pending.state;
  cell.length = length;
  link_->publishes();
  // release: pairs with acquire in Service::serve(); cell and data are complete.
  cell.sequence.store(next_request_ + 1, std::memory_order_release);
  parts_[slot] = {position, pending.issued, length};
  ++next_request_;
  ++pending.outstanding;
  pending.issued += length;
  return true;
}

ShmEndpoint::Outcome ShmEndpoint::step_served(Pending& pending, std::uint32_t position) {
  const std::uint64_t bytes = transfer_bytes(pending.request);
  if (pending.restart && pending.outstanding == 0) {
    pending.restart = false;
    pending.issued = pending.state = 0;
  }
  const bool go_on = pending.status == ErrorCode::kOk && !pending.restart && !pending.written;
  // A request of several parts asks for one first: its answer tells the state of
  // the region that the others must meet as well.
  const bool first_only = bytes > kSlotBytes && pending.state == 0;
  bool issued = false;
  while (go_on && pending.issued < bytes && !(first_only && pending.issued != 0)) {
    if (!issue_part(pending, position)) break;
    issued = true;
  }
  if (issued) link_->announce_request();
  // Requests of one part may follow each other; others are waited for, because
  // they may have to start again.
  if (bytes <= kSlotBytes && pending.request.op != Op::kWriteImm)
    return pending.issued == bytes ? Outcome::kIssued : Outcome::kBlocked;
  if (pending.outstanding != 0 || pending.issued != bytes) return Outcome::kBlocked;
  if (pending.request.op != Op::kWriteImm) return finish(pending, ErrorCode::kOk, bytes);
  pending.written = true;
  ErrorCode status = ErrorCode::kOk;
  if (!can_send(sizeof(std::uint32_t), status)) return Outcome::kBlocked;
  pending.completed = true;
  send_written(pending.request, bytes);
  return Outcome::kDone;
}

void ShmEndpoint::take_reply(const Part& part, std::uint32_t slot) {
  const ServeReply& reply = link_->our_lane().replies[slot];
  const auto status = static_cast<ErrorCode>(read_once(reply.status));
  const bool changed = read_once(reply.changed) != 0;
  Pending& pending = pending_.at(part.position);
  --pending.outstanding;
  if (pending.completed) return;  // Its deadline passed; its buffers are not ours any more.
  if (changed) {
    pending.restart = true;
  } else if (status != ErrorCode::kOk) {
    pending.status = is_known(status) ? status : ErrorCode::kMalformedFrame;
    if (status == ErrorCode::kUnknownKey) keys_.erase(pending.request.remote.key);
  } else if (pending.request.op == Op::kRead) {
    scatter(pending.request.local, part.offset, link_->slot_data(true, slot), part.length);
  }
  pending.state = read_once(reply.state);
  pending.value = read_once(reply.value);
  const bool waited_for = part.position == pending_.issue_position() && !pending_.all_issued();
  if (waited_for) return;  // step_served() goes on with it.
  finish(pending, pending.status, pending.status == ErrorCode::kOk ? pending.issued : 0, pending.value);
}

void ShmEndpoint::take_replies() {
  while (has_served()) {
    const std::uint32_t slot = next_reply_ % kSlots;
    // acquire: pairs with release in Service::serve(); answer and data are complete.
    if (link_->our_lane().replies[slot].sequence.load(std::memory_order_acquire) != next_reply_ + 1) return;
    link_->consumes();
    ++next_reply_;
    take_reply(parts_[slot], slot);
  }
}

// ---------------------------------------------------------------- all of them

void ShmEndpoint::advance() {
  if (state_ != EndpointState::kOpen) return;
  if (has_served()) take_replies();
  if (!unacknowledged_.empty()) complete_consumed(++quiet_rounds_ > kQuietRounds);
  if (is_stalled_ && state_ == EndpointState::kOpen) take_messages();
  while (state_ == EndpointState::kOpen && !pending_.all_issued()) {
    Pending& pending = pending_.next_to_issue();
    if (!pending.completed && step(pending, pending_.issue_position()) == Outcome::kBlocked) break;
    pending_.mark_issued();
  }
  pending_.retire();
}

void ShmEndpoint::expire(Instant now) {
  expire_sent(now);
  const std::int64_t default_ns = (now + options_.default_timeout).ns();
  const bool open = state_ == EndpointState::kOpen;
  pending_.for_each([&](Pending& pending) {
    if (pending.completed) return;
    if (pending.deadline_ns == 0) pending.deadline_ns = default_ns;
    if (now.ns() < pending.deadline_ns) return;
    const bool needs_receiver = pending.request.op == Op::kSend || pending.request.op == Op::kWriteImm;
    const bool not_ready = open && needs_receiver && pending.outstanding == 0;
    finish(pending, not_ready ? ErrorCode::kReceiverNotReady : ErrorCode::kDeadlineExceeded);
  });
  advance();
}

Instant ShmEndpoint::next_look(Instant now) const {
  // Acknowledgements of shared receive queues come without a ring of the bell if
  // the peer does not poll.
  if (!unacknowledged_.empty()) return now + std::chrono::milliseconds(1);
  Instant earliest = now + ShmCompletionQueue::kLongestNap;
  pending_.for_each([&](const Pending& pending) {
    // 0: not stamped yet, which the next look at the clock does.
    const Instant deadline = Instant::from_ns(pending.deadline_ns);
    if (!pending.completed) earliest = std::min(earliest, pending.deadline_ns == 0 ? now : deadline);
  });
  return earliest;
}

}  // namespace yonder::fabric::shm
