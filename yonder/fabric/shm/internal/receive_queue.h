#pragma once
// Receive buffers shared by many endpoints (fabric.h: ReceiveQueue).
//
// How many buffers it holds stands in a notice line that peers can read: a sender
// whose message waits in a ring while nobody polls may complete its send when
// there are buffers (endpoint.h).
//
// Concurrency: any thread; one lock. Lifetime: outlives its endpoints.

#include <memory>
#include <mutex>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/shm/internal/mailbox.h"
#include "yonder/fabric/shm/internal/state_file.h"

namespace yonder::fabric::shm {

// A ring of receive requests; bounded.
class ReceiveRing {
 public:
  explicit ReceiveRing(std::uint32_t capacity) : ring_(capacity) {}
  std::uint32_t size() const { return tail_ - head_; }
  std::uint32_t room() const { return static_cast<std::uint32_t>(ring_.size()) - size(); }
  bool empty() const { return head_ == tail_; }
  const ReceiveRequest& front() const { return ring_[head_ % ring_.size()]; }
  const ReceiveRequest& at(std::uint32_t i) const { return ring_[(head_ + i) % ring_.size()]; }
  void push(const ReceiveRequest& receive) { ring_[tail_++ % ring_.size()] = receive; }
  void pop() {
    // Restarting at 0 keeps the modulo right when the counters would wrap.
    if (++head_ == tail_) head_ = tail_ = 0;
    if (head_ >= ring_.size() && tail_ >= ring_.size()) {
      head_ -= static_cast<std::uint32_t>(ring_.size());
      tail_ -= static_cast<std::uint32_t>(ring_.size());
    }
  }

 private:
  std::vector<ReceiveRequest> ring_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
};

class ShmReceiveQueue final : public ReceiveQueue {
 public:
  static Result<std::unique_ptr<ReceiveQueue>> create(StateFile& states, const ReceiveQueueOptions& options);
  ~ShmReceiveQueue() override;

  Result<void> post(std::span<const ReceiveRequest> receives) override;
  void close() override;

  // The oldest buffer; false if there is none, and then `waiter` is nudged once
  // when there is one again.
  bool take(ReceiveRequest& receive, const std::shared_ptr<Mailbox>& waiter);
  std::uint32_t line() const { return line_; }

 private:
  ShmReceiveQueue(StateFile& states, std::uint32_t line, std::uint32_t capacity)
      : states_(states), line_(line), ring_(capacity) {}
  void publish_size();

  StateFile& states_;
  const std::uint32_t line_;
  std::mutex mutex_;
  ReceiveRing ring_;                               // Guarded by mutex_.
  std::vector<std::shared_ptr<Mailbox>> waiters_;  // Guarded by mutex_; one per queue.
  bool closed_ = false;                            // Guarded by mutex_.
};

}  // namespace yonder::fabric::shm
