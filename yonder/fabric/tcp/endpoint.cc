#include "yonder/fabric/tcp/internal/endpoint.h"

#include <algorithm>
#include <utility>

namespace yonder::fabric::tcp {
namespace {

constexpr std::uint32_t kMaxInline = 256;

Limits limits_of(const EndpointOptions& options) {
  return {.depth = options.depth,
          .receive_depth = options.receive_queue == nullptr ? options.receive_depth : 0,
          .max_pieces = kMaxPieces,
          .max_inline = kMaxInline,
          .max_message = options.max_message,
          .max_transfer = kMaxTransferBytes};
}

}  // namespace

TcpEndpoint::TcpEndpoint(Seat seat, Options options)
    : Endpoint(seat.queue(), seat.id()),
      seat_(std::move(seat)),
      options_(std::move(options)),
      requests_({.endpoint = seat_.id(),
                 .limits = limits_of(seat_.options()),
                 .identity = options_.identity,
                 .default_timeout = seat_.options().default_timeout},
                seat_.account(), seat_.queue().finished()) {}

Result<void> TcpEndpoint::open(Link link) {
  YONDER_TRY_VOID(tcp_queue().epoll().add(link.requests->socket().fd(), os::kEpollReadable,
                                          reinterpret_cast<std::uint64_t>(this)));
  agreement_ = link.agreement;
  greeting_ = std::move(link.greeting);
  if (link.serving != nullptr)
    YONDER_TRY_VOID(
        seat_.serve(std::move(link.serving), options_.context, link.agreement.peer.tenant, nullptr));
  requests_.attach(std::move(link.requests));
  interest_ = os::kEpollReadable;
  state_ = EndpointState::kOpen;
  return {};
}

// ---------------------------------------------------------------- posting

std::size_t TcpEndpoint::post_now(std::span<const WorkRequest> requests, Instant now) {
  const InitiatorStream::Posted posted = requests_.post(requests, now);
  if (!posted.sent) lose();
  // A broken endpoint ends its requests at once, as if they had been lost.
  if (state_ == EndpointState::kBroken) requests_.end_all(ErrorCode::kConnectionLost);
  tcp_queue().note_deadline(requests_.next_deadline());
  return posted.count;
}

Result<std::size_t> TcpEndpoint::do_post(std::span<const WorkRequest> requests) {
  if (state_ == EndpointState::kClosed) return fail(ErrorCode::kClosed, "post");
  if (requests.empty()) return std::size_t{0};
  const Instant now = tcp_queue().now();
  const bool has_room = seat_.account().requests < seat_.account().depth;
  std::size_t count = post_now(requests, now);
  // Nothing was taken although there was room: the ring was full of requests
  // given up, and the loss that followed has emptied it.
  if (count == 0 && has_room) count = post_now(requests, now);
  if (count == 0) return fail(ErrorCode::kQueueFull, "post", seat_.account().depth);
  return count;
}

Result<void> TcpEndpoint::post_receive(std::span<const ReceiveRequest> receives) {
  if (state_ == EndpointState::kClosed) return fail(ErrorCode::kClosed, "post receives");
  Inbox& inbox = *seat_.inbox();
  if (inbox.takes_from_shared())
    return fail(ErrorCode::kInvalidArgument, "post receives: the endpoint takes from a shared queue");
  Account& account = seat_.account();
  if (account.receive_depth - account.receives < receives.size())
    return fail(ErrorCode::kQueueFull, "post receives", account.receive_depth);
  account.receives += static_cast<std::uint32_t>(receives.size());
  StreamGroup& group = *tcp_queue().group();
  const std::lock_guard lock(group.mutex());
  for (const ReceiveRequest& receive : receives) inbox.post(receive);
  if (state_ == EndpointState::kBroken) inbox.end_all(ErrorCode::kConnectionLost);
  seat_.nudge(tcp_queue().now());
  return {};
}

// ---------------------------------------------------------------- progress

bool TcpEndpoint::progress() {
  if (!requests_.is_attached()) return false;
  const Result<bool> moved = requests_.progress();
  if (!moved) lose();
  return moved.value_or(true);
}

Instant TcpEndpoint::expire(Instant now) {
  requests_.expire(now);
  return requests_.next_deadline();
}

void TcpEndpoint::arm() {
  set_interest(os::kEpollReadable | (requests_.wants_write() ? os::kEpollWritable : 0u));
}

void TcpEndpoint::disarm() { set_interest(0); }

// Disarmed, it is taken out altogether: as long as it is in, the kernel calls
// epoll for every packet.
void TcpEndpoint::set_interest(std::uint32_t interest) {
  if (!requests_.is_attached() || interest == interest_) return;
  const os::Epoll& epoll = tcp_queue().epoll();
  const os::Fd& fd = requests_.transport()->socket().fd();
  const auto token = reinterpret_cast<std::uint64_t>(this);
  Result<void> changed;
  if (interest == 0) {
    changed = epoll.remove(fd);
  } else if (interest_ == 0) {
    changed = epoll.add(fd, interest, token);
  } else {
    changed = epoll.modify(fd, interest, token);
  }
  interest_ = interest;
  if (!changed) lose();  // Out of memory for the entry: nothing would wake us.
}

void TcpEndpoint::take_news() {
  if (seat_.inbox()->lost.exchange(false) && state_ == EndpointState::kOpen) {
    // Replies that arrived before the end are still good.
    if (requests_.is_attached()) (void)requests_.progress();
    lose();
  }
  if (mailbox_ != nullptr) take_outcome();
}

// ---------------------------------------------------------------- loss and return

void TcpEndpoint::lose() {
  if (state_ == EndpointState::kClosed) return;
  requests_.end_all(ErrorCode::kConnectionLost);
  seat_.stop_serving(ErrorCode::kConnectionLost);
  if (state_ != EndpointState::kOpen) return;
  if (options_.redial) {
    state_ = EndpointState::kReconnecting;
    redial();
  } else {
    state_ = EndpointState::kBroken;
  }
}

void TcpEndpoint::redial() {
  mailbox_ = std::make_shared<Mailbox>();
  auto done = [mailbox = mailbox_, group = tcp_queue().group()](Result<Link> link) {
    {
      const std::lock_guard lock(mailbox->mutex);
      mailbox->outcome = std::move(link);
    }
    group->tell_news();
  };
  Service& service = tcp_queue().service();
  dial_ = service.run(std::make_shared<Dial>(options_.redial->target, Dial::Again::kUntilItWorks,
                                             options_.redial->seed + dials_++, service, std::move(done)));
}

void TcpEndpoint::take_outcome() {
  std::optional<Result<Link>> outcome;
  {
    const std::lock_guard lock(mailbox_->mutex);
    outcome.swap(mailbox_->outcome);
  }
  if (!outcome) return;
  mailbox_.reset();
  if (*outcome && open(std::move(**outcome))) {
    progress();
    return;
  }
  // The listener refuses us for good, or we are out of descriptors.
  state_ = EndpointState::kBroken;
  requests_.end_all(ErrorCode::kConnectionLost);
  seat_.stop_serving(ErrorCode::kConnectionLost);
}

void TcpEndpoint::close() {
  if (std::exchange(state_, EndpointState::kClosed) == EndpointState::kClosed) return;
  if (mailbox_ != nullptr) tcp_queue().service().cancel(dial_);
  mailbox_.reset();
  requests_.end_all(ErrorCode::kCancelled);
  seat_.stop_serving(ErrorCode::kCancelled);
  tcp_queue().leave(this);
}

}  // namespace yonder::fabric::tcp
