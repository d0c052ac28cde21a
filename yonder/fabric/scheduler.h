#pragma once
// Runs tasks on one thread by driving one completion queue.
//
//   Scheduler scheduler(*queue);
//   for (Client& client : clients) scheduler.spawn(client.run());
//   YONDER_TRY_VOID(scheduler.run(Deadline::after(clock, 10s)));
//
// The same code runs on every provider. On `sim` waiting advances virtual time
// and tasks on all hosts of the world are resumed, so one scheduler drives a
// whole cluster on one thread.
//
// Concurrency: one thread, the one that uses the queue.
// Lifetime: tasks that have not finished are destroyed with the scheduler; close
// their endpoints first.

#include <coroutine>
#include <cstddef>
#include <functional>
#include <queue>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/task.h"

namespace yonder::fabric {

namespace internal {

struct ListNode {
  ListNode* previous = this;
  ListNode* next = this;

  void insert_before(ListNode& node) {
    previous = node.previous;
    next = &node;
    previous->next = this;
    node.previous = this;
  }
  void remove() {
    previous->next = next;
    next->previous = previous;
    previous = next = this;
  }
};

}  // namespace internal

class Scheduler {
 public:
  explicit Scheduler(CompletionQueue& queue) : queue_(queue) {}
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Starts a task at once; the scheduler owns it until it ends.
  void spawn(Task<void> task);

  // Runs until every spawned task has ended; kDeadlineExceeded otherwise (tasks
  // stay, run() can be called again).
  Result<void> run(Deadline deadline);

  // Runs one task to its end and returns its value. Others run meanwhile.
  template <typename T>
  T block_on(Task<T> task) {
    task.start();
    run_until([&] { return task.done(); });
    return task.take();
  }

  // Runs tasks until `done()`, which an Operation of the queue makes true. For callers that
  // wait for one without a task of their own.
  template <typename Done>
  void run_until(Done&& done) {
    // Without a deadline: computing one would be a look at the clock between the end of
    // an operation and its caller. The queue's own makes it look again.
    while (!done()) step({});
  }

  // `co_await scheduler.sleep_for(5ms)`: resumes not before then.
  auto sleep_for(Duration duration) { return SleepAwaiter{*this, queue_.clock().now() + duration}; }
  auto sleep_until(Instant instant) { return SleepAwaiter{*this, instant}; }
  // `co_await scheduler.nap_until(instant)`: resumes then at the latest, and whenever
  // the thread has looked at its queue, CompletionQueue::wake() included. For tasks that
  // wait for another thread: look, nap, look again.
  auto nap_until(Instant instant) { return NapAwaiter{*this, instant}; }

  std::size_t running() const { return running_; }

 private:
  // The frame that owns a spawned task, in a list so that unfinished ones can be
  // destroyed; it leaves the list and frees itself when the task ends.
  struct Spawned;

  struct Timer {
    Instant due;
    std::coroutine_handle<> waiter;
    friend bool operator>(const Timer& a, const Timer& b) { return a.due > b.due; }
  };
  struct SleepAwaiter {
    Scheduler& scheduler;
    Instant due;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { scheduler.timers_.push({due, waiter}); }
    void await_resume() const noexcept {}
  };

  struct NapAwaiter {
    Scheduler& scheduler;
    Instant due;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { scheduler.nappers_.push_back({due, waiter}); }
    void await_resume() const noexcept {}
  };

  // Polls, fires due timers, and if neither did anything waits until `deadline`
  // or the next timer. Then those who nap look.
  void step(Deadline deadline);
  void wait(Deadline deadline);
  bool fire_timers();
  void wake_nappers();

  CompletionQueue& queue_;
  std::size_t running_ = 0;
  internal::ListNode spawned_;  // Sentinel of a circular list.
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<Timer> nappers_;
  std::vector<Timer> woken_;  // While they are resumed: some nap again.
};

}  // namespace yonder::fabric
