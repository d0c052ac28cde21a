#include "yonder/fabric/shm/internal/endpoint.h"

#include <algorithm>

namespace yonder::fabric::shm {

ShmEndpoint::ShmEndpoint(ShmCompletionQueue& queue, EndpointParts parts, std::shared_ptr<Link> link)
    : Endpoint(queue, parts.id),
      shm_queue_(queue),
      options_(parts.options),
      limits_(parts.limits),
      release_(std::move(parts.release)),
      newest_(std::move(parts.newest)),
      shared_receives_(static_cast<ShmReceiveQueue*>(parts.options.receive_queue)),
      link_(std::move(link)),
      pending_(parts.limits.depth, kMaxInline),
      receives_(std::max(parts.limits.receive_depth, 1u)),
      unacknowledged_(parts.limits.depth) {
  if (parts.model) paced_.emplace(*parts.model);
  open();
  queue.mailbox()->post({.kind = Mail::Kind::kAttach, .attached = this});
}

// ---------------------------------------------------------------- connection

void ShmEndpoint::open() {
  state_ = EndpointState::kOpen;
  hazard_ = &link_->our_lane().hazard;
  fence_ = link_->parts().fence;
  holds_entry_ = true;
  asked_ = false;
  next_request_ = next_reply_ = 0;
  messages_sent_ = peer_posted_ = receives_posted_ = 0;
  for (std::uint32_t i = 0; i < receives_.size(); ++i)
    link_->post_receive(receives_posted_++, receives_.at(i).buffer.length);
  if (receives_posted_ != 0) link_->nudge_queue();
}

void ShmEndpoint::on_attached() {
  shm_queue_.watch(*this, link_->parts().ours.queue_entry);
  // News of before we were on the list that they are delivered to.
  if (link_->lost()) {
    lose();
    if (newest_) adopt(newest_());
  }
  if (is_busy()) shm_queue_.set_busy(*this);
}

void ShmEndpoint::on_mail(Mail& mail) {
  switch (mail.kind) {
    case Mail::Kind::kOpened:
      adopt(std::move(mail.link));
      break;
    case Mail::Kind::kLost:
      if (mail.link == link_) lose();
      break;
    case Mail::Kind::kResolved:
      if (mail.link == link_) on_resolved(mail);
      break;
    case Mail::Kind::kAttach:
    case Mail::Kind::kNudge:
      break;
  }
  advance();
  if (is_busy()) shm_queue_.set_busy(*this);
}

void ShmEndpoint::drop_entry() {
  if (!std::exchange(holds_entry_, false)) return;
  shm_queue_.give_entry(link_->parts().ours.queue_entry);
}

void ShmEndpoint::adopt(std::shared_ptr<Link> link) {
  if (!link || link == link_ || state_ == EndpointState::kClosed) return;
  lose();
  link_ = std::move(link);
  open();
  shm_queue_.watch(*this, link_->parts().ours.queue_entry);
  if (link_->lost()) lose();
}

void ShmEndpoint::lose() {
  if (state_ != EndpointState::kOpen) return;
  // What the peer said before it went is not lost.
  while (state_ == EndpointState::kOpen && link_->receiver.has_message() && take_message()) {
  }
  state_ = after_loss();
  flush(ErrorCode::kConnectionLost);
  drop_entry();
}

void ShmEndpoint::break_connection() {
  // Our service thread sees the end of the socket and decides what follows.
  link_->cut();
  state_ = after_loss();
  flush(ErrorCode::kMalformedFrame);
  drop_entry();
}

void ShmEndpoint::flush(ErrorCode status) {
  pending_.for_each([&](Pending& pending) {
    if (!pending.completed) complete(pending.request, status);
  });
  pending_.clear();
  unacknowledged_.for_each([&](Sent& sent) {
    if (sent.completed) return;
    complete({.op = sent.op, .flags = sent.flags, .user_data = sent.user_data}, status);
  });
  unacknowledged_.clear();
  for (; !receives_.empty(); receives_.pop()) complete_receive(receives_.front(), Op::kReceive, status, 0, 0);
  keys_.clear();
  is_stalled_ = false;
}

void ShmEndpoint::close() {
  if (state_ == EndpointState::kClosed) return;
  // We may not be on the queue's list yet, and a lost connection is lost first.
  shm_queue_.read_mail();
  state_ = EndpointState::kClosed;
  flush(ErrorCode::kCancelled);
  drop_entry();
  release_(link_);
  shm_queue_.detach(*this, limits_.depth + limits_.receive_depth);
}

// ---------------------------------------------------------------- completions

void ShmEndpoint::complete(const WorkRequest& request, ErrorCode status, std::uint64_t length,
                           std::uint64_t value) {
  const bool silent = status == ErrorCode::kOk && has(request.flags, RequestFlags::kUnsignalled);
  const Completion completion{.user_data = request.user_data,
                              .value = value,
                              .endpoint = id(),
                              .length = static_cast<std::uint32_t>(length),
                              .status = status,
                              .op = request.op,
                              .flags = request.flags};
  if (paced_ && request.op != Op::kSend) [[unlikely]] {
    const Instant due = paced_->due(shm_queue_.clock().now(), length);
    if (!silent) return shm_queue_.push_delayed(completion, this, due);
  }
  if (silent) {
    --in_flight_;
  } else {
    shm_queue_.push(completion, this);
  }
}

void ShmEndpoint::complete_receive(const ReceiveRequest& receive, Op op, ErrorCode status,
                                   std::uint32_t length, std::uint32_t immediate) {
  shm_queue_.push({.user_data = receive.user_data,
                   .endpoint = id(),
                   .length = length,
                   .immediate = immediate,
                   .status = status,
                   .op = op,
                   .flags = receive.flags},
                  this);
}

// ---------------------------------------------------------------- posting

Result<std::size_t> ShmEndpoint::post_all(std::span<const WorkRequest> requests) {
  if (state_ == EndpointState::kClosed) [[unlikely]]
    return fail(ErrorCode::kClosed, "post: the endpoint is closed");
  const std::size_t room = std::min(limits_.depth - in_flight_, pending_.room());
  const std::size_t count = std::min(requests.size(), room);
  if (count == 0 && !requests.empty())
    return fail(ErrorCode::kQueueFull, "post: the depth is reached", limits_.depth);
  requests = requests.first(count);
  in_flight_ += static_cast<std::uint32_t>(count);
  if (state_ == EndpointState::kBroken) [[unlikely]] {
    for (const WorkRequest& request : requests) complete(request, ErrorCode::kConnectionLost);
    return count;
  }
  const bool now = pending_.empty() && state_ == EndpointState::kOpen;
  const std::size_t done = now ? execute_now(requests) : 0;
  if (done == count) [[likely]]
    return count;
  for (const WorkRequest& request : requests.subspan(done))
    pending_.push(request, check_request(request, limits_));
  advance();
  if (is_busy()) shm_queue_.set_busy(*this);
  return count;
}

Result<void> ShmEndpoint::post_receive(std::span<const ReceiveRequest> receives) {
  if (state_ == EndpointState::kClosed)
    return fail(ErrorCode::kClosed, "post receives: the endpoint is closed");
  if (shared_receives_ != nullptr)
    return fail(ErrorCode::kInvalidArgument, "post receives: the endpoint has a shared receive queue");
  if (receives.size() > limits_.receive_depth - receives_in_use_)
    return fail(ErrorCode::kQueueFull, "post receives", static_cast<std::int64_t>(receives.size()));
  receives_in_use_ += static_cast<std::uint32_t>(receives.size());
  if (state_ == EndpointState::kBroken) {
    for (const ReceiveRequest& receive : receives)
      complete_receive(receive, Op::kReceive, ErrorCode::kConnectionLost, 0, 0);
    return {};
  }
  const bool open = state_ == EndpointState::kOpen;
  for (const ReceiveRequest& receive : receives) {
    receives_.push(receive);
    if (open) link_->post_receive(receives_posted_++, receive.buffer.length);
  }
  if (open) link_->nudge_queue();
  return {};
}

}  // namespace yonder::fabric::shm
