#pragma once
// MoveOrders: the moves of partitions that somebody asked for, and what became of them.
//
// Orders wait in the registry's process until the server that owns the partition comes
// and takes them (it looks every few milliseconds), so that a move can be asked for at any
// server. One order per partition is open at a time, and one at a time per server runs.
// When the partition has changed hands its bytes are still on their way: the target says
// how many are left.
//
//   state     | take     | finish                      | arrived(0 left) | cancel    | pause
//   ----------+----------+-----------------------------+-----------------+-----------+---------
//   queued    | running  | –                           | –               | cancelled | paused
//   running   | –        | arriving, done or failed    | remembered      | refused   | goes on
//   arriving  | –        | –                           | done            | refused   | goes on
//
// finish makes it done if all has arrived by then. done, failed, cancelled are the end; such orders
// are kept for the list, and the oldest are dropped. abandon() fails what nobody will end: queued
// and running ones whose owner is dead (unless the target has it), arriving ones whose target is.
//
// paused is what list() calls a queued order while none is handed out.
//
// Concurrency: any thread. Lifetime: with the registry that owns it; what it returns are copies.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/segment/ids.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {

enum class OrderState : std::uint8_t {
  kQueued = 0,
  kRunning = 1,
  kDone = 2,
  kFailed = 3,
  kCancelled = 4,
  kArriving = 5,
  kPaused = 6,
};

// Whether an order has not come to its end.
constexpr bool is_under_way(OrderState state) {
  return state != OrderState::kDone && state != OrderState::kFailed && state != OrderState::kCancelled;
}

struct MoveOrder {
  std::uint64_t id = 0;
  std::uint32_t partition = 0;
  segment::ProcessId from;  // who owned it when it was ordered
  segment::ProcessId to;
  OrderState state = OrderState::kQueued;
  ErrorCode error = ErrorCode::kOk;  // of a failed one
  // Still to arrive at the target: before it begins, what the partition was last said to hold;
  // 0 at the end.
  std::uint64_t bytes_left = 0;
};

class MoveOrders {
 public:
  static constexpr std::size_t kKept = 64;  // in all; beyond it new ones are refused

  // kAlreadyExists: one for this partition is open; kResourceExhausted.
  Result<std::uint64_t> add(std::uint32_t partition, segment::ProcessId from, segment::ProcessId to,
                            std::uint64_t bytes = 0);
  // The next order for `owner`, which runs from now on; none while paused.
  std::optional<MoveOrder> take(segment::ProcessId owner);
  // What a partition is said to hold: so much is left of an order of which its target has said
  // nothing yet.
  void estimate(std::uint32_t partition, std::uint64_t bytes);
  // The partition has changed hands, or not. kNotFound: it does not run.
  Result<void> finish(std::uint64_t id, ErrorCode error);
  // What `target` says of the newest order that brings it this partition: so many bytes are
  // missing, or (an error) some never will come. Of no such order: nothing.
  void arrived(std::uint32_t partition, segment::ProcessId target, std::uint64_t bytes_left, ErrorCode error);
  // Fails what waits for a process that is dead.
  void abandon(const std::function<bool(segment::ProcessId)>& is_dead);
  // kNotFound: there is no such order; kAlreadyExists: it runs or has ended.
  Result<void> cancel(std::uint64_t id);
  void set_paused(bool paused);
  std::vector<MoveOrder> list() const;

 private:
  struct Entry {
    MoveOrder order;
    // What the target said before the source had finished.
    bool at_target = false;
    bool all_here = false;
  };
  // One that still wants its partition where it was ordered; what arrives may move on.
  static bool is_open(const Entry& entry) {
    return entry.order.state == OrderState::kQueued || entry.order.state == OrderState::kRunning;
  }
  Entry* find(std::uint64_t id) YONDER_REQUIRES(mutex_);
  static void end(MoveOrder& order, ErrorCode error);

  mutable sync::Mutex mutex_;
  std::deque<Entry> orders_ YONDER_GUARDED_BY(mutex_);
  std::uint64_t next_id_ YONDER_GUARDED_BY(mutex_) = 1;
  bool paused_ YONDER_GUARDED_BY(mutex_) = false;
};

}  // namespace yonder::cache
