#include "yonder/heap/internal/thread_state.h"

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/heap/internal/runtime.h"

namespace yonder::heap::internal {
namespace {

// Its destructor runs when the thread ends.
struct LeaveAtExit {
  ~LeaveAtExit() {
    if (t_thread != nullptr && g_runtime != nullptr) g_runtime->leave(*t_thread);
  }
};

}  // namespace

ThreadState& Runtime::thread() {
  if (t_thread != nullptr) [[likely]]
    return *t_thread;
  auto holds = domain_.register_thread();
  auto scratch = domain_.register_thread();
  YONDER_CHECK(holds && scratch, "no more threads than HeapOptions::max_threads use far pointers");
  auto state = std::make_unique<ThreadState>(std::move(*holds), std::move(*scratch));
  t_thread = state.get();
  t_slots = t_thread->holds.slots().data();
  thread_local LeaveAtExit leave_at_exit;
  (void)leave_at_exit;
  const sync::LockGuard lock(threads_mutex_);
  threads_.push_back(std::move(state));
  return *t_thread;
}

void Runtime::leave(ThreadState& thread) {
  YONDER_CHECK(&thread == t_thread, "a thread leaves for itself");
  close_log(thread.fresh);
  close_log(thread.fixed);
  close_log(thread.fetched);
  thread.early.settle(*store_);
  t_thread = nullptr;
  t_slots = g_no_slots;
  const sync::LockGuard lock(threads_mutex_);
  retired_counters_.add(thread.counters);
  std::erase_if(threads_, [&thread](const auto& other) { return other.get() == &thread; });
}

}  // namespace yonder::heap::internal
