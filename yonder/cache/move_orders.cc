#include "yonder/cache/move_orders.h"

#include <algorithm>
#include <ranges>

namespace yonder::cache {

using segment::ProcessId;

MoveOrders::Entry* MoveOrders::find(std::uint64_t id) {
  const auto found = std::ranges::find_if(orders_, [&](const Entry& entry) { return entry.order.id == id; });
  return found == orders_.end() ? nullptr : &*found;
}

void MoveOrders::end(MoveOrder& order, ErrorCode error) {
  order.state = error == ErrorCode::kOk ? OrderState::kDone : OrderState::kFailed;
  order.error = error;
  order.bytes_left = 0;
}

Result<std::uint64_t> MoveOrders::add(std::uint32_t partition, ProcessId from, ProcessId to,
                                      std::uint64_t bytes) {
  const sync::LockGuard lock(mutex_);
  for (const Entry& entry : orders_) {
    if (entry.order.partition == partition && is_open(entry))
      return fail(ErrorCode::kAlreadyExists, "order a move: one of this partition is under way, job",
                  static_cast<std::int64_t>(entry.order.id));
  }
  if (orders_.size() >= kKept) {
    // What still arrives is dropped last: somebody watches it.
    auto oldest =
        std::ranges::find_if(orders_, [](const Entry& entry) { return !is_under_way(entry.order.state); });
    if (oldest == orders_.end())
      oldest = std::ranges::find_if(orders_, [](const Entry& entry) { return !is_open(entry); });
    if (oldest == orders_.end())
      return fail(ErrorCode::kResourceExhausted, "order a move: too many wait", kKept);
    orders_.erase(oldest);
  }
  const std::uint64_t id = next_id_++;
  orders_.push_back(
      {.order = {.id = id, .partition = partition, .from = from, .to = to, .bytes_left = bytes}});
  return id;
}

std::optional<MoveOrder> MoveOrders::take(ProcessId owner) {
  const sync::LockGuard lock(mutex_);
  if (paused_) return std::nullopt;
  for (Entry& entry : orders_) {
    if (entry.order.from != owner || entry.order.state != OrderState::kQueued) continue;
    entry.order.state = OrderState::kRunning;
    return entry.order;
  }
  return std::nullopt;
}

void MoveOrders::estimate(std::uint32_t partition, std::uint64_t bytes) {
  const sync::LockGuard lock(mutex_);
  for (Entry& entry : orders_) {
    if (entry.order.partition == partition && is_open(entry) && !entry.at_target)
      entry.order.bytes_left = bytes;
  }
}

Result<void> MoveOrders::finish(std::uint64_t id, ErrorCode error) {
  const sync::LockGuard lock(mutex_);
  Entry* entry = find(id);
  if (entry == nullptr || entry->order.state != OrderState::kRunning)
    return fail(ErrorCode::kNotFound, "finish a move that does not run", static_cast<std::int64_t>(id));
  if (error != ErrorCode::kOk || entry->all_here) {
    end(entry->order, error);
  } else {
    entry->order.state = OrderState::kArriving;
  }
  return {};
}

void MoveOrders::arrived(std::uint32_t partition, ProcessId target, std::uint64_t bytes_left,
                         ErrorCode error) {
  const sync::LockGuard lock(mutex_);
  const auto newest = std::ranges::find_if(std::views::reverse(orders_), [&](const Entry& entry) {
    return entry.order.partition == partition && entry.order.to == target;
  });
  if (newest == orders_.rend()) return;
  MoveOrder& order = newest->order;
  if (order.state != OrderState::kRunning && order.state != OrderState::kArriving) return;
  order.bytes_left = bytes_left;
  if (error != ErrorCode::kOk) {
    end(order, error);
  } else if (bytes_left == 0 && order.state == OrderState::kArriving) {
    end(order, ErrorCode::kOk);
  } else {
    newest->at_target = true;
    newest->all_here = bytes_left == 0;
  }
}

void MoveOrders::abandon(const std::function<bool(ProcessId)>& is_dead) {
  const sync::LockGuard lock(mutex_);
  for (Entry& entry : orders_) {
    if (is_open(entry) && is_dead(entry.order.from)) {
      if (!entry.at_target || entry.all_here) {
        end(entry.order, entry.all_here ? ErrorCode::kOk : ErrorCode::kConnectionLost);
      } else {
        entry.order.state = OrderState::kArriving;
      }
    }
    if (entry.order.state == OrderState::kArriving && is_dead(entry.order.to))
      end(entry.order, ErrorCode::kConnectionLost);
  }
}

Result<void> MoveOrders::cancel(std::uint64_t id) {
  const sync::LockGuard lock(mutex_);
  Entry* entry = find(id);
  if (entry == nullptr)
    return fail(ErrorCode::kNotFound, "cancel: there is no such job", static_cast<std::int64_t>(id));
  if (entry->order.state != OrderState::kQueued)
    return fail(ErrorCode::kAlreadyExists, "cancel: it runs or has ended, job",
                static_cast<std::int64_t>(id));
  entry->order.state = OrderState::kCancelled;
  entry->order.bytes_left = 0;
  return {};
}

void MoveOrders::set_paused(bool paused) {
  const sync::LockGuard lock(mutex_);
  paused_ = paused;
}

std::vector<MoveOrder> MoveOrders::list() const {
  const sync::LockGuard lock(mutex_);
  std::vector<MoveOrder> listed;
  for (const Entry& entry : orders_) {
    listed.push_back(entry.order);
    if (paused_ && entry.order.state == OrderState::kQueued) listed.back().state = OrderState::kPaused;
  }
  return listed;
}

}  // namespace yonder::cache
