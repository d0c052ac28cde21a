#include "yonder/sync/gate.h"

#include "yonder/base/check.h"

namespace yonder::sync {

Gate::~Gate() { YONDER_CHECK(inside() == 0, "a gate is destroyed only when nobody is inside"); }

Gate::Pass Gate::try_enter() {
  // A loop and not fetch_add: a refused entry must not change the word, or it
  // could be the one that brings the count of a drained gate back to 0 (I1).
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  while ((state & kClosed) == 0) {
    // acquire: the work does not begin before the pass is ours.
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return Pass(this);
  }
  return {};
}

void Gate::leave() {
  // release: pairs with the acquire half of the last one's; the work done inside
  // by everybody is complete before drained_ is set.
  const std::uint64_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
  if (before == (kClosed | 1)) set_drained();
}

void Gate::close() {
  const std::uint64_t before = state_.fetch_or(kClosed, std::memory_order_acq_rel);
  if (before == 0) set_drained();
}

void Gate::set_drained() {
  const LockGuard lock(mutex_);
  drained_ = true;
  drained_changed_.notify_all();  // Under the lock: afterwards the gate may be gone (I2).
}

Result<void> Gate::wait_empty(Deadline deadline) {
  YONDER_CHECK(!deadline.is_default(), "a wait has a deadline");
  LockGuard lock(mutex_);
  while (!drained_) {
    if (!drained_changed_.wait(lock, deadline) && !drained_)
      return fail(ErrorCode::kDeadlineExceeded, "wait for running work", static_cast<std::int64_t>(inside()));
  }
  return {};
}

}  // namespace yonder::sync
