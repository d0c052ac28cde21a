// Keeps the deadlines of awaited calls.
//
// A blocking call looks at the clock itself. An awaited one is resumed by its
// answer or, if none comes, by a sweep: a task on the client's scheduler that
// sleeps until the earliest deadline and ends what is due. A timer per call would
// pile up in the scheduler (its timers cannot be taken back, and calls take
// microseconds while their deadlines are seconds away), so there is one sweep
// ahead at a time, at most kSlice away; it re-arms itself while calls are under
// way, and only a call that is due before it adds another.

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/rpc/client.h"

namespace yonder::rpc {
namespace {

// Also how long an idle client's last sweep lingers in the scheduler, and how
// often a client that lost its connection looks whether it is back.
constexpr Duration kSlice = std::chrono::milliseconds(10);

}  // namespace

void Client::watch_deadline(const CallBase& call) {
  YONDER_CHECK(options_.scheduler != nullptr, "awaited calls need ClientOptions::scheduler");
  // The comparison spares the clock: next_sweep_ is kSlice ahead at most.
  if (call.deadline_.instant() < next_sweep_)
    arm_sweep(std::min(call.deadline_.instant(), queue().clock().now() + kSlice));
}

void Client::arm_sweep(Instant when) {
  if (when >= next_sweep_) return;
  next_sweep_ = when;
  options_.scheduler->spawn(sweep_at(*options_.scheduler, anchor_, when));
}

fabric::Task<void> Client::sweep_at(fabric::Scheduler& scheduler, std::shared_ptr<Anchor> anchor,
                                    Instant when) {
  co_await scheduler.sleep_until(when);
  if (anchor->client != nullptr) anchor->client->sweep();
}

void Client::sweep() {
  const Instant now = queue().clock().now();
  if (now >= next_sweep_) next_sweep_ = Instant::from_ns(INT64_MAX);
  ++in_operations_;
  progress();

  CallList due;
  Instant next = Instant::from_ns(INT64_MAX);
  const auto look_at = [&](CallBase& call) {
    // Blocking calls (no waiter) look at the clock themselves.
    if (!call.waiter_) return;
    if (call.deadline_.passed(now)) {
      expire(call);
      due.push_back(call);
    } else {
      next = std::min(next, call.deadline_.instant());
    }
  };
  for (CallTable::Slot& slot : table_.slots()) {
    if (slot.call != nullptr) look_at(*slot.call);
  }
  for (CallBase* call = waiting_.head(); call != nullptr;) {
    CallBase& current = *call;
    call = CallList::next(current);
    look_at(current);
  }
  if (next != Instant::from_ns(INT64_MAX)) arm_sweep(std::min(next, now + kSlice));
  while (!due.empty()) {
    CallBase& call = *due.head();
    CallList::remove(call);
    call.resume();
  }
  operation_ended();
}

}  // namespace yonder::rpc
