#pragma once
// Receive buffers: a bounded ring, and the ring that many endpoints share.
//
// When a stream found no buffer it waits (its peer's next requests with it), and
// the post that ends the shortage must tell it: the stream's group leaves its
// name here, and is kicked at the next post.
//
// Concurrency: ReceiveRing one thread; TcpReceiveQueue any thread.
// Lifetime: buffers are borrowed until their completion or close(); outlives its
// endpoints.

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::tcp {

// Whoever serves streams that wait for receives: look at them again. Any thread.
class Kick {
 public:
  virtual void kick() = 0;

 protected:
  ~Kick() = default;
};

class ReceiveRing {
 public:
  explicit ReceiveRing(std::size_t capacity) : ring_(capacity) {}
  std::size_t size() const { return count_; }
  std::size_t room() const { return ring_.size() - count_; }
  bool empty() const { return count_ == 0; }
  const ReceiveRequest& front() const { return ring_[first_]; }
  // Require room() / !empty() (checked).
  void push(const ReceiveRequest& receive);
  void push_front(const ReceiveRequest& receive);
  ReceiveRequest pop();

 private:
  std::vector<ReceiveRequest> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

class TcpReceiveQueue final : public ReceiveQueue {
 public:
  explicit TcpReceiveQueue(const ReceiveQueueOptions& options) : ring_(options.capacity) {}

  Result<void> post(std::span<const ReceiveRequest> receives) override;
  void close() override;

  // A buffer of at least `length` bytes: kReceiverNotReady, kMessageTooLong. With
  // the first, `server` is kicked at the next post.
  ErrorCode take(std::uint32_t length, ReceiveRequest& out, const std::shared_ptr<Kick>& server);
  // Each take() ends with one of these: the buffer was used, or is free again.
  void finish();
  void give_back(const ReceiveRequest& receive);

 private:
  std::mutex mutex_;
  // All guarded by mutex_.
  ReceiveRing ring_;
  std::size_t taken_ = 0;                       // Keep their room, so that give_back() cannot fail.
  std::vector<std::shared_ptr<Kick>> waiting_;  // At most one entry per group.
};

}  // namespace yonder::fabric::tcp
