#pragma once
// Where the messages of a stream go: the receives of its endpoint, and the queue
// of finished receives that the application polls.
//
// An Inbox is shared by an endpoint (which posts receives and closes) and the
// target's stream of its connection (which fills them). Both hold the mutex of
// the stream's group.
//
// Concurrency: guarded by StreamGroup::mutex(), except Arrivals::has_any().
// Lifetime: shared by endpoint and stream; buffers of receives are borrowed until
// their completion.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/fabric/tcp/internal/account.h"
#include "yonder/fabric/tcp/internal/receive_queue.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::tcp {

// Finished receives of one completion queue, oldest first. One half of the ring
// is for receives that endpoints reserved, the other for those of shared queues,
// which nobody reserved: when theirs is full, their senders wait.
class Arrivals {
 public:
  explicit Arrivals(std::size_t capacity) : capacity_(capacity), ring_(2 * capacity) {}

  // Without the lock: whether a look is worth while. A stale answer is corrected
  // by the next poll, or by the wake-up that follows every push.
  bool has_any() const { return count_.load(std::memory_order_acquire) != 0; }
  std::size_t shared_room() const { return capacity_ - shared_; }

  // Requires room (checked): reserved, or shared_room() for those without account.
  void push(const Finished& finished);
  // Requires has_any() (checked).
  Finished pop();

 private:
  const std::size_t capacity_;
  std::vector<Finished> ring_;
  std::size_t first_ = 0;
  std::size_t shared_ = 0;             // How many in the ring have no account.
  std::atomic<std::size_t> count_{0};  // Changed under the lock only.
};

class Inbox {
 public:
  struct Options {
    EndpointId endpoint;
    Account* account;
    std::uint32_t receive_depth;
    std::uint32_t max_message;
    TcpReceiveQueue* shared;       // Take receives from here; may be null.
    std::shared_ptr<Kick> server;  // Kicked when a shared receive comes after a shortage.
  };
  Inbox(const Options& options, Arrivals& arrivals)
      : options_(options), arrivals_(arrivals), own_(options.shared == nullptr ? options.receive_depth : 0) {}

  std::uint32_t max_message() const { return options_.max_message; }
  bool takes_from_shared() const { return options_.shared != nullptr; }

  // For the endpoint. Requires room (the endpoint counts).
  void post(const ReceiveRequest& receive) { own_.push(receive); }

  // A buffer for a message of `length` bytes (0 for an immediate), now owned by
  // the caller until finish() or give_back(). kReceiverNotReady if there is none
  // or its completion would have no room, kMessageTooLong if the next is smaller.
  ErrorCode take(std::uint32_t length, ReceiveRequest& out);
  void finish(const ReceiveRequest& receive, Op op, std::uint32_t length, std::uint32_t immediate);
  // Undoes take(): the message will not be completed.
  void give_back(const ReceiveRequest& receive);
  // Ends all posted receives with `status`. Shared ones stay where they are.
  void end_all(ErrorCode status);

  // Set by the stream when it is lost; the endpoint reacts at its next poll.
  std::atomic<bool> lost{false};

 private:
  Completion completion_of(const ReceiveRequest& receive, ErrorCode status) const;

  const Options options_;
  Arrivals& arrivals_;
  ReceiveRing own_;
};

}  // namespace yonder::fabric::tcp
