#include "yonder/fabric/tcp/internal/seat.h"

#include "yonder/fabric/tcp/internal/queue.h"

namespace yonder::fabric::tcp {
namespace {

constexpr std::uint32_t kMaxDepth = 1u << 20;

}  // namespace

Result<Seat> Seat::take(TcpQueue& queue, EndpointId id, const EndpointOptions& options) {
  if (options.depth == 0 || options.depth > kMaxDepth || options.receive_depth > kMaxDepth ||
      options.max_message > kMaxTransferBytes)
    return fail(ErrorCode::kInvalidArgument, "endpoint options: depth or longest message");
  const std::uint32_t receive_depth = options.receive_queue == nullptr ? options.receive_depth : 0;
  YONDER_TRY(account, queue.reserve(options.depth, receive_depth));
  Seat seat;
  seat.queue_ = &queue;
  seat.account_ = account;
  seat.id_ = id;
  seat.options_ = options;
  seat.inbox_ =
      std::make_shared<Inbox>(Inbox::Options{.endpoint = id,
                                             .account = account,
                                             .receive_depth = receive_depth,
                                             .max_message = options.max_message,
                                             .shared = static_cast<TcpReceiveQueue*>(options.receive_queue),
                                             .server = queue.group()},
                              queue.group()->arrivals());
  return seat;
}

Seat& Seat::operator=(Seat&& other) noexcept {
  if (this == &other) return *this;
  leave();
  queue_ = std::exchange(other.queue_, nullptr);
  account_ = other.account_;
  id_ = other.id_;
  options_ = other.options_;
  inbox_ = std::move(other.inbox_);
  stream_ = other.stream_;
  is_served_ = std::exchange(other.is_served_, false);
  return *this;
}

Result<void> Seat::serve(std::unique_ptr<Transport> transport, const TargetContext& context, TenantId tenant,
                         std::shared_ptr<void> live) {
  auto stream = std::make_unique<TargetStream>(std::move(transport), context, tenant, inbox_);
  stream->keep(std::move(live));
  StreamGroup& group = *queue_->group();
  const std::lock_guard lock(group.mutex());
  YONDER_TRY(id, group.add(std::move(stream)));
  stream_ = id;
  is_served_ = true;
  return {};
}

void Seat::stop_serving(ErrorCode status) {
  StreamGroup& group = *queue_->group();
  const std::lock_guard lock(group.mutex());
  if (std::exchange(is_served_, false)) group.remove(stream_);
  inbox_->end_all(status);
  inbox_->lost.store(false);
}

void Seat::nudge(Instant now) {
  if (is_served_) queue_->group()->nudge(stream_, now);
}

void Seat::leave() {
  if (queue_ == nullptr) return;
  stop_serving(ErrorCode::kCancelled);
  std::exchange(queue_, nullptr)->release(account_);
}

}  // namespace yonder::fabric::tcp
