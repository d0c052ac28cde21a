#pragma once
// MoveOrders: the moves of partitions that somebody asked for, and what became of them.
//
// Orders wait in the registry's process until the server that owns the partition comes
// and takes them (it looks every few milliseconds), so that a move can be asked for at any
// server. One order per partition is open at a time, and one at a time per server runs.
//
//   state      take(owner)   finish           cancel      pause
//   queued     running       –                cancelled   stays queued
//   running    –             done or failed   refused     goes on
//   done, failed, cancelled: the end; kept for the list, the oldest are dropped
//
// Concurrency: any thread.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/segment/ids.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {

enum class OrderState : std::uint8_t { kQueued = 0, kRunning = 1, kDone = 2, kFailed = 3, kCancelled = 4 };

struct MoveOrder {
  std::uint64_t id = 0;
  std::uint32_t partition = 0;
  segment::ProcessId from;  // who owned it when it was ordered
  segment::ProcessId to;
  OrderState state = OrderState::kQueued;
  ErrorCode error = ErrorCode::kOk;  // of a failed one
};

class MoveOrders {
 public:
  static constexpr std::size_t kKept = 64;  // in all; beyond it new ones are refused

  // kAlreadyExists: one for this partition is open; kResourceExhausted.
  Result<std::uint64_t> add(std::uint32_t partition, segment::ProcessId from, segment::ProcessId to);
  // The next order for `owner`, which runs from now on; none while paused.
  std::optional<MoveOrder> take(segment::ProcessId owner);
  // kNotFound: it does not run.
  Result<void> finish(std::uint64_t id, ErrorCode error);
  // kNotFound: there is no such order; kAlreadyExists: it runs or has ended.
  Result<void> cancel(std::uint64_t id);
  void set_paused(bool paused);
  bool is_paused() const;
  std::vector<MoveOrder> list() const;

 private:
  bool is_open(const MoveOrder& order) const {
    return order.state == OrderState::kQueued || order.state == OrderState::kRunning;
  }
  MoveOrder* find(std::uint64_t id) YONDER_REQUIRES(mutex_);

  mutable sync::Mutex mutex_;
  std::deque<MoveOrder> orders_ YONDER_GUARDED_BY(mutex_);
  std::uint64_t next_id_ YONDER_GUARDED_BY(mutex_) = 1;
  bool paused_ YONDER_GUARDED_BY(mutex_) = false;
};

}  // namespace yonder::cache
