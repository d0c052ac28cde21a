#include "yonder/fabric/tcp/internal/receive_queue.h"

#include <algorithm>

#include "yonder/base/check.h"

namespace yonder::fabric::tcp {

void ReceiveRing::push(const ReceiveRequest& receive) {
  YONDER_CHECK(room() != 0, "receives are counted before they are posted");
  ring_[(first_ + count_++) % ring_.size()] = receive;
}

void ReceiveRing::push_front(const ReceiveRequest& receive) {
  YONDER_CHECK(room() != 0, "a receive that is given back has room");
  first_ = (first_ + ring_.size() - 1) % ring_.size();
  ring_[first_] = receive;
  ++count_;
}

ReceiveRequest ReceiveRing::pop() {
  YONDER_CHECK(!empty(), "nothing to receive into");
  const ReceiveRequest receive = ring_[first_];
  first_ = (first_ + 1) % ring_.size();
  --count_;
  return receive;
}

Result<void> TcpReceiveQueue::post(std::span<const ReceiveRequest> receives) {
  std::vector<std::shared_ptr<Kick>> servers;
  {
    const std::lock_guard lock(mutex_);
    if (ring_.room() < receives.size() + taken_)
      return fail(ErrorCode::kQueueFull, "post shared receives", static_cast<std::int64_t>(ring_.room()));
    for (const ReceiveRequest& receive : receives) ring_.push(receive);
    servers.swap(waiting_);
  }
  for (const auto& server : servers) server->kick();
  return {};
}

void TcpReceiveQueue::close() {
  const std::lock_guard lock(mutex_);
  while (!ring_.empty()) (void)ring_.pop();
  waiting_.clear();
}

ErrorCode TcpReceiveQueue::take(std::uint32_t length, ReceiveRequest& out,
                                const std::shared_ptr<Kick>& server) {
  const std::lock_guard lock(mutex_);
  if (ring_.empty()) {
    if (std::ranges::find(waiting_, server) == waiting_.end()) waiting_.push_back(server);
    return ErrorCode::kReceiverNotReady;
  }
  if (ring_.front().buffer.length < length) return ErrorCode::kMessageTooLong;
  out = ring_.pop();
  ++taken_;
  return ErrorCode::kOk;
}

void TcpReceiveQueue::finish() {
  const std::lock_guard lock(mutex_);
  --taken_;
}

void TcpReceiveQueue::give_back(const ReceiveRequest& receive) {
  const std::lock_guard lock(mutex_);
  --taken_;
  ring_.push_front(receive);
}

}  // namespace yonder::fabric::tcp
