#include "yonder/fabric/shm/internal/receive_queue.h"

#include <algorithm>

namespace yonder::fabric::shm {

Result<std::unique_ptr<ReceiveQueue>> ShmReceiveQueue::create(StateFile& states,
                                                              const ReceiveQueueOptions& options) {
  if (options.capacity == 0 || options.capacity > (1u << 20))
    return fail(ErrorCode::kInvalidArgument, "create receive queue: capacity", options.capacity);
  YONDER_TRY(line, states.take_line());
  return std::unique_ptr<ReceiveQueue>(new ShmReceiveQueue(states, line, options.capacity));
}

ShmReceiveQueue::~ShmReceiveQueue() {
  close();
  states_.give_line(line_);
}

void ShmReceiveQueue::publish_size() {
  // relaxed: a hint for senders that wait; the message itself is in the ring.
  states_.line(line_).available.store(ring_.size(), std::memory_order_relaxed);
}

Result<void> ShmReceiveQueue::post(std::span<const ReceiveRequest> receives) {
  std::vector<std::shared_ptr<Mailbox>> waiters;
  {
    const sync::SpinGuard lock(lock_);
    if (closed_) return fail(ErrorCode::kClosed, "post receives: the queue is closed");
    if (receives.size() > ring_.room())
      return fail(ErrorCode::kQueueFull, "post receives", static_cast<std::int64_t>(receives.size()));
    for (const ReceiveRequest& receive : receives) ring_.push(receive);
    publish_size();
    waiters.swap(waiters_);
  }
  for (const auto& waiter : waiters) waiter->post({.kind = Mail::Kind::kNudge});
  return {};
}

void ShmReceiveQueue::close() {
  const sync::SpinGuard lock(lock_);
  closed_ = true;
  while (!ring_.empty()) ring_.pop();
  waiters_.clear();
  publish_size();
}

bool ShmReceiveQueue::take(ReceiveRequest& receive, const std::shared_ptr<Mailbox>& waiter) {
  const sync::SpinGuard lock(lock_);
  if (ring_.empty()) {
    if (std::ranges::find(waiters_, waiter) == waiters_.end()) waiters_.push_back(waiter);
    return false;
  }
  receive = ring_.front();
  ring_.pop();
  publish_size();
  return true;
}

}  // namespace yonder::fabric::shm
