// Messages: see endpoint.h for when a send is complete.
#include "yonder/base/check.h"
#include "yonder/fabric/shm/internal/endpoint.h"

namespace yonder::fabric::shm {
namespace {

// Messages taken from one ring before the next is looked at.
constexpr int kMessagesPerPoll = 16;

}  // namespace

// ---------------------------------------------------------------- sending

bool ShmEndpoint::can_send(std::uint32_t length, ErrorCode& status) {
  if (link_->peer_shared_receives() != nullptr)
    return !unacknowledged_.full() && link_->sender.has_room(length);
  if (messages_sent_ == peer_posted_) {
    const std::uint32_t posted = link_->peer_posted();
    if (posted - messages_sent_ > link_->peer_receive_depth()) [[unlikely]] {
      status = ErrorCode::kMalformedFrame;
      return false;
    }
    peer_posted_ = posted;
    if (messages_sent_ == posted) return false;
  }
  if (length > link_->peer_receive_size(messages_sent_)) [[unlikely]] {
    status = ErrorCode::kMessageTooLong;
    return false;
  }
  return link_->sender.has_room(length);
}

void ShmEndpoint::send_now(const MessageHead& head, std::span<const LocalPiece> pieces,
                           const WorkRequest& request, std::uint64_t bytes) {
  link_->publishes();
  const std::uint32_t number = link_->sender.send(head, pieces, link_->receiver.next());
  link_->receiver.told();
  link_->announce_message();
  ++messages_sent_;
  if (link_->peer_shared_receives() == nullptr) [[likely]]
    return complete(request, ErrorCode::kOk, bytes);
  unacknowledged_.push({.user_data = request.user_data,
                        .op = request.op,
                        .flags = request.flags,
                        .number = number,
                        .length = static_cast<std::uint32_t>(bytes),
                        .deadline_ns = request.deadline.instant().ns()});
  quiet_rounds_ = 0;
  shm_queue_.set_busy(*this);
}

ShmEndpoint::Outcome ShmEndpoint::try_send(const WorkRequest& request) {
  const auto length = static_cast<std::uint32_t>(local_bytes(request));
  ErrorCode status = ErrorCode::kOk;
  if (can_send(length, status)) [[likely]] {
    send_now({MessageKind::kSend, length, request.immediate}, request.local, request, length);
    return Outcome::kDone;
  }
  if (status == ErrorCode::kOk) return Outcome::kBlocked;
  complete(request, status);
  return Outcome::kDone;
}

void ShmEndpoint::send_written(const WorkRequest& request, std::uint64_t bytes) {
  auto written = static_cast<std::uint32_t>(bytes);
  const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&written, 1)));
  send_now({MessageKind::kWriteImm, sizeof written, request.immediate}, {&piece, 1}, request, bytes);
}

void ShmEndpoint::complete_consumed(bool peer_is_quiet) {
  if (!link_->sender.refresh()) return break_connection();
  // A peer that does not poll but has buffers: the message is as good as placed.
  const bool has_buffers =
      peer_is_quiet && link_->peer_shared_receives()->available.load(std::memory_order_relaxed) != 0;
  unacknowledged_.for_each([&](Sent& sent) {
    if (sent.completed || !(has_buffers || link_->sender.is_consumed(sent.number))) return;
    sent.completed = true;
    complete({.op = sent.op, .flags = sent.flags, .user_data = sent.user_data}, ErrorCode::kOk, sent.length);
  });
  while (!unacknowledged_.empty() && unacknowledged_.front().completed) unacknowledged_.pop();
}

void ShmEndpoint::expire_sent(Instant now) {
  const std::int64_t default_ns = (now + options_.default_timeout).ns();
  bool oldest = true;
  unacknowledged_.for_each([&](Sent& sent) {
    if (sent.completed) return;
    if (sent.deadline_ns == 0) sent.deadline_ns = default_ns;
    if (now.ns() < sent.deadline_ns) {
      oldest = false;
      return;
    }
    sent.completed = true;
    // relaxed: read by the peer when it takes a message that had to wait. Only
    // the oldest are withdrawn, because the number covers all before it.
    if (oldest) link_->our_lane().withdrawn.store(sent.number, std::memory_order_relaxed);
    complete({.op = sent.op, .flags = sent.flags, .user_data = sent.user_data}, ErrorCode::kReceiverNotReady);
  });
  while (!unacknowledged_.empty() && unacknowledged_.front().completed) unacknowledged_.pop();
}

// ---------------------------------------------------------------- receiving

void ShmEndpoint::publish_consumed() {
  link_->receiver.publish();
  // The peer may sleep until there is room, or until this acknowledgement.
  link_->nudge_queue();
}

bool ShmEndpoint::take_buffer(ReceiveRequest& receive) {
  if (shared_receives_ == nullptr) {
    if (receives_.empty()) return false;
    receive = receives_.front();
    receives_.pop();
    return true;
  }
  // Unpolled receives of a shared queue are bounded by the reservation.
  if (receives_in_use_ == limits_.receive_depth) return false;
  if (!shared_receives_->take(receive, shm_queue_.mailbox())) return false;
  ++receives_in_use_;
  return true;
}

// Takes one message; false if it must stay (no buffer) or the peer is malformed.
bool ShmEndpoint::take_message() {
  link_->consumes();
  MessageReceiver& receiver = link_->receiver;
  MessageHead head;
  std::uint32_t acknowledged = 0;
  if (!receiver.peek(head, acknowledged) || !link_->sender.acknowledge(acknowledged)) {
    break_connection();
    return false;
  }
  if (is_stalled_) {
    // It had to wait: its sender may have given it up meanwhile.
    const std::uint32_t end = receiver.next() + cells_of(head.length);
    const std::uint32_t withdrawn = link_->their_lane().withdrawn.load(std::memory_order_relaxed);
    if (withdrawn - end < link_->parts().shape.cells) {
      receiver.drop(head);
      return true;
    }
  }
  ReceiveRequest receive;
  if (!take_buffer(receive)) {
    is_stalled_ = shared_receives_ != nullptr;
    // Without a shared queue the sender knows our receives: it has overdrawn.
    if (!is_stalled_) break_connection();
    return false;
  }
  is_stalled_ = false;
  const bool is_send = head.kind == MessageKind::kSend;
  if (is_send && head.length > receive.buffer.length) {
    if (shared_receives_ == nullptr) {
      complete_receive(receive, Op::kReceive, ErrorCode::kMalformedFrame, 0, 0);
      break_connection();
      return false;
    }
    complete_receive(receive, Op::kReceive, ErrorCode::kMessageTooLong, head.length, head.immediate);
    receiver.drop(head);
    return true;
  }
  std::uint32_t written = 0;
  std::byte* const to = is_send ? receive.buffer.data : reinterpret_cast<std::byte*>(&written);
  if (!receiver.take(head, to, is_send ? receive.buffer.length : sizeof written)) {
    complete_receive(receive, Op::kReceive, ErrorCode::kMalformedFrame, 0, 0);
    break_connection();
    return false;
  }
  complete_receive(receive, is_send ? Op::kReceive : Op::kReceiveImm, ErrorCode::kOk,
                   is_send ? head.length : written, head.immediate);
  return true;
}

void ShmEndpoint::take_messages() {
  for (int i = 0; i < kMessagesPerPoll && link_->receiver.has_message(); ++i) {
    if (!take_message()) break;
  }
  // Acknowledgements that came with them are looked at in the next round: see
  // ShmCompletionQueue::progress().
  if (is_busy()) shm_queue_.set_busy(*this);
}

}  // namespace yonder::fabric::shm
