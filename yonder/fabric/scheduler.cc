#include "yonder/fabric/scheduler.h"

#include <algorithm>

namespace yonder::fabric {

struct Scheduler::Spawned {
  struct promise_type : internal::ListNode {
    static void* operator new(std::size_t size) { return FramePool::allocate(size); }
    static void operator delete(void* frame, std::size_t size) { FramePool::release(frame, size); }

    promise_type(Scheduler& scheduler, Task<void>&) : scheduler_(scheduler) {
      insert_before(scheduler.spawned_);
      ++scheduler.running_;
    }
    ~promise_type() {
      remove();
      --scheduler_.running_;
    }
    Spawned get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }

    Scheduler& scheduler_;
  };

  static Spawned run(Scheduler&, Task<void> task) { co_await std::move(task); }
};

Scheduler::~Scheduler() {
  while (spawned_.next != &spawned_) {
    auto& promise = static_cast<Spawned::promise_type&>(*spawned_.next);
    std::coroutine_handle<Spawned::promise_type>::from_promise(promise).destroy();
  }
}

void Scheduler::spawn(Task<void> task) { Spawned::run(*this, std::move(task)); }

bool Scheduler::fire_timers() {
  bool fired = false;
  // Those that are due now: tasks that sleep again and again for less time than all
  // of them take must not keep the queue from being polled.
  const Instant now = queue_.clock().now();
  while (!timers_.empty() && timers_.top().due <= now) {
    const std::coroutine_handle<> waiter = timers_.top().waiter;
    timers_.pop();
    waiter.resume();
    fired = true;
  }
  return fired;
}

void Scheduler::wake_nappers() {
  woken_.swap(nappers_);
  for (const Timer& napper : woken_) napper.waiter.resume();
  woken_.clear();
}

void Scheduler::step(Deadline deadline) {
  const std::uint64_t before = queue_.operations_completed();
  queue_.poll({});
  const bool fired = !timers_.empty() && fire_timers();
  if (!fired && queue_.operations_completed() == before) wait(deadline);
  // Last, because a caller looks whether that was all before it waits again.
  if (!nappers_.empty()) wake_nappers();
}

void Scheduler::wait(Deadline deadline) {
  if (!timers_.empty()) deadline = Deadline::earlier(deadline, Deadline::at(timers_.top().due));
  for (const Timer& napper : nappers_) deadline = Deadline::earlier(deadline, Deadline::at(napper.due));
  // Whether it timed out or not, the next step looks again.
  (void)queue_.wait_for_operations(deadline);
}

Result<void> Scheduler::run(Deadline deadline) {
  while (running_ > 0) {
    if (deadline.passed(queue_.clock().now())) return fail(ErrorCode::kDeadlineExceeded, "run tasks");
    step(deadline);
  }
  return {};
}

}  // namespace yonder::fabric
