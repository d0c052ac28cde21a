#pragma once
// PagingEvictor: keeps the resident pages of a space within its budget.
//
// Faults reserve() before they put a page in, so the budget is never exceeded by more than
// what another part of the process took meanwhile. Somebody sweeps when little room is left, so
// that most faults find room; a fault that finds none sweeps itself. Who that somebody is:
//
//   the store is elsewhere           a background thread, which waits for the writes while the
//                                    program goes on
//   it is memory of this process     who faults, if nobody sweeps just then, a few pages at a time
//
// A thread of ours on another core makes every page that is protected or dropped a matter of two
// cores: interrupts (10 us and more here), cold frames, shared locks. Together that costs a program of
// one thread more than the sweeping itself, which takes about a microsecond a page. The background
// thread then acts only if the budget has become less than what is there.
//
//   limit = budget − other memory          never exceeded by a reservation
//   limit − slack/2                        the thread is woken, or a fault sweeps
//   limit − slack                          the thread stops
//
// Concurrency: reserve, set_budget and wake from any thread, also in a signal handler.
// Lifetime: the core outlives it; the destructor ends the thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/heap/internal/paging_core.h"
#include "yonder/heap/internal/paging_sweeper.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::heap::internal {

class PagingEvictor {
 public:
  struct Options {
    std::uint64_t budget_pages = 0;
    std::uint64_t min_pages = 0;  // What the space keeps at least: this, or a quarter of the budget.
    std::function<Bytes()> other_memory;
  };

  PagingEvictor(PagingCore& core, PageDropper& dropper, Options options);
  ~PagingEvictor();

  // Counts one page in, once there is room. Errors: kDeadlineExceeded (none became free:
  // all is pinned or in use), and those of the store if they last that long.
  Result<void> reserve_one(Deadline deadline);
  // Counts up to `pages` in, as far as there is room now; how many.
  std::size_t reserve_up_to(std::size_t pages);

  void set_budget_pages(std::uint64_t pages);
  // For fork(): no sweep is under way between the two; in a child there never is one.
  void lock_sweeps() YONDER_ACQUIRE(lock_) { lock_.lock(); }
  void unlock_sweeps() YONDER_RELEASE(lock_) { lock_.unlock(); }
  // The budget less what the rest of the process takes.
  std::uint64_t limit() const;
  std::uint64_t budget_pages() const { return budget_pages_.load(std::memory_order_relaxed); }

 private:
  static std::uint64_t slack(std::uint64_t limit);
  void keep_room();
  void sweep_if_nobody_does();
  void wake();
  // At so many resident pages the thread has something to do.
  std::uint64_t thread_begins_at() const;
  Result<void> make_room(Deadline deadline);
  void run(const std::stop_token& stop);
  Result<void> sweep_down();
  void sleep(Duration at_most);
  void look_around();

  PagingCore& core_;
  const Options options_;
  const bool faults_sweep_;
  std::atomic<std::uint64_t> budget_pages_;
  std::atomic<std::uint64_t> other_pages_{0};
  sync::SpinLock lock_;
  PagingSweeper sweeper_ YONDER_GUARDED_BY(lock_);
  std::atomic<std::uint32_t> asleep_{0};
  std::jthread thread_;  // Last: it uses all of the above.
};

}  // namespace yonder::heap::internal
