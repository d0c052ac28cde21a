#include "yonder/fabric/tcp/internal/inbox.h"

#include "yonder/base/check.h"

namespace yonder::fabric::tcp {

void Arrivals::push(const Finished& finished) {
  const std::size_t count = count_.load(std::memory_order_relaxed);
  YONDER_CHECK(count < ring_.size(), "arrivals are bounded before they are made");
  if (finished.account == nullptr) ++shared_;
  ring_[(first_ + count) % ring_.size()] = finished;
  // release: pairs with the acquire in has_any().
  count_.store(count + 1, std::memory_order_release);
}

Finished Arrivals::pop() {
  const std::size_t count = count_.load(std::memory_order_relaxed);
  YONDER_CHECK(count != 0, "an arrival is polled once");
  const Finished finished = ring_[first_];
  first_ = (first_ + 1) % ring_.size();
  if (finished.account == nullptr) --shared_;
  count_.store(count - 1, std::memory_order_release);
  return finished;
}

ErrorCode Inbox::take(std::uint32_t length, ReceiveRequest& out) {
  // Own receives have their room reserved; shared ones compete for it.
  if (options_.shared != nullptr) {
    if (arrivals_.shared_room() == 0) return ErrorCode::kReceiverNotReady;
    return options_.shared->take(length, out, options_.server);
  }
  if (own_.empty()) return ErrorCode::kReceiverNotReady;
  if (own_.front().buffer.length < length) return ErrorCode::kMessageTooLong;
  out = own_.pop();
  return ErrorCode::kOk;
}

Completion Inbox::completion_of(const ReceiveRequest& receive, ErrorCode status) const {
  return {.user_data = receive.user_data,
          .endpoint = options_.endpoint,
          .status = status,
          .op = Op::kReceive,
          .flags = receive.flags};
}

void Inbox::finish(const ReceiveRequest& receive, Op op, std::uint32_t length, std::uint32_t immediate) {
  Completion completion = completion_of(receive, ErrorCode::kOk);
  completion.op = op;
  completion.length = length;
  completion.immediate = immediate;
  const bool is_shared = options_.shared != nullptr;
  if (is_shared) options_.shared->finish();
  arrivals_.push({.completion = completion, .account = is_shared ? nullptr : options_.account});
}

void Inbox::give_back(const ReceiveRequest& receive) {
  if (options_.shared != nullptr) {
    options_.shared->give_back(receive);
  } else {
    own_.push_front(receive);
  }
}

void Inbox::end_all(ErrorCode status) {
  while (!own_.empty()) {
    arrivals_.push({.completion = completion_of(own_.pop(), status), .account = options_.account});
  }
}

}  // namespace yonder::fabric::tcp
