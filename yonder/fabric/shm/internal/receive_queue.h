#pragma once
// Receive buffers shared by many endpoints (fabric.h: ReceiveQueue).
//
// How many buffers it holds stands in a notice line that peers can read: a sender
// whose message waits in a ring while nobody polls may complete its send when
// there are buffers (endpoint.h).
//
// Concurrency: any thread; one lock. Lifetime: outlives its endpoints.

#include <bit>
#include <memory>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/shm/internal/mailbox.h"
#include "yonder/fabric/shm/internal/state_file.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::fabric::shm {

// A ring of receive requests; bounded.
class ReceiveRing {
 public:
  explicit ReceiveRing(std::uint32_t capacity)
      : capacity_(capacity), mask_(std::bit_ceil(capacity) - 1), ring_(std::size_t{mask_} + 1) {}
  std::uint32_t size() const { return tail_ - head_; }
  std::uint32_t room() const { return capacity_ - size(); }
  bool empty() const { return head_ == tail_; }
  const ReceiveRequest& front() const { return at(0); }
  const ReceiveRequest& at(std::uint32_t i) const { return ring_[(head_ + i) & mask_]; }
  void push(const ReceiveRequest& receive) { ring_[tail_++ & mask_] = receive; }
  void pop() { ++head_; }

 private:
  const std::uint32_t capacity_;
  const std::uint32_t mask_;
  std::uint32_t head_ = 0;  // running numbers
  std::uint32_t tail_ = 0;
  std::vector<ReceiveRequest> ring_;
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
  void publish_size() YONDER_REQUIRES(lock_);

  StateFile& states_;
  const std::uint32_t line_;
  sync::SpinLock lock_;  // Taken with every message.
  ReceiveRing ring_ YONDER_GUARDED_BY(lock_);
  std::vector<std::shared_ptr<Mailbox>> waiters_ YONDER_GUARDED_BY(lock_);  // One per queue.
  bool closed_ YONDER_GUARDED_BY(lock_) = false;
};

}  // namespace yonder::fabric::shm
