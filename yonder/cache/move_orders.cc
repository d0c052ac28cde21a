#include "yonder/cache/move_orders.h"

#include <algorithm>

namespace yonder::cache {

MoveOrder* MoveOrders::find(std::uint64_t id) {
  const auto found =
      std::find_if(orders_.begin(), orders_.end(), [&](const MoveOrder& order) { return order.id == id; });
  return found == orders_.end() ? nullptr : &*found;
}

Result<std::uint64_t> MoveOrders::add(std::uint32_t partition, segment::ProcessId from,
                                      segment::ProcessId to) {
  const sync::LockGuard lock(mutex_);
  for (const MoveOrder& order : orders_) {
    if (order.partition == partition && is_open(order))
      return fail(ErrorCode::kAlreadyExists, "order a move: one of this partition is under way",
                  static_cast<std::int64_t>(order.id));
  }
  if (orders_.size() >= kKept) {
    const auto oldest =
        std::find_if(orders_.begin(), orders_.end(), [&](const MoveOrder& order) { return !is_open(order); });
    if (oldest == orders_.end())
      return fail(ErrorCode::kResourceExhausted, "order a move: too many wait", kKept);
    orders_.erase(oldest);
  }
  const std::uint64_t id = next_id_++;
  orders_.push_back({.id = id, .partition = partition, .from = from, .to = to});
  return id;
}

std::optional<MoveOrder> MoveOrders::take(segment::ProcessId owner) {
  const sync::LockGuard lock(mutex_);
  if (paused_) return std::nullopt;
  for (MoveOrder& order : orders_) {
    if (order.from != owner || order.state != OrderState::kQueued) continue;
    order.state = OrderState::kRunning;
    return order;
  }
  return std::nullopt;
}

Result<void> MoveOrders::finish(std::uint64_t id, ErrorCode error) {
  const sync::LockGuard lock(mutex_);
  MoveOrder* order = find(id);
  if (order == nullptr || order->state != OrderState::kRunning)
    return fail(ErrorCode::kNotFound, "finish a move that does not run", static_cast<std::int64_t>(id));
  order->state = error == ErrorCode::kOk ? OrderState::kDone : OrderState::kFailed;
  order->error = error;
  return {};
}

Result<void> MoveOrders::cancel(std::uint64_t id) {
  const sync::LockGuard lock(mutex_);
  MoveOrder* order = find(id);
  if (order == nullptr)
    return fail(ErrorCode::kNotFound, "cancel a move that was not ordered", static_cast<std::int64_t>(id));
  if (order->state != OrderState::kQueued)
    return fail(ErrorCode::kAlreadyExists, "cancel a move that runs or has ended",
                static_cast<std::int64_t>(id));
  order->state = OrderState::kCancelled;
  return {};
}

void MoveOrders::set_paused(bool paused) {
  const sync::LockGuard lock(mutex_);
  paused_ = paused;
}

bool MoveOrders::is_paused() const {
  const sync::LockGuard lock(mutex_);
  return paused_;
}

std::vector<MoveOrder> MoveOrders::list() const {
  const sync::LockGuard lock(mutex_);
  return {orders_.begin(), orders_.end()};
}

}  // namespace yonder::cache
