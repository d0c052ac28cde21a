#include "yonder/heap/internal/paging_evictor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/os/futex.h"
#include "yonder/os/steady_clock.h"

namespace yonder::heap::internal {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(100);
constexpr Duration kRetryWriteAfter = std::chrono::milliseconds(20);
// A sweep's length while nobody waits for it: small enough that a fault which then does
// wait gets the lock soon.
constexpr std::size_t kSweepPages = 256;
// … and of a fault that finds room: a request that has to wait for it waits 0.1 ms.
constexpr std::size_t kFaultSweepPages = 128;

// Signals of the program are for its own threads.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

PagingEvictor::PagingEvictor(PagingCore& core, PageDropper& dropper, Options options)
    : core_(core),
      options_(std::move(options)),
      faults_sweep_(core.store().in_place(0) != nullptr),
      budget_pages_(options_.budget_pages),
      sweeper_(core, dropper) {
  const AllSignalsBlocked inherited;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

PagingEvictor::~PagingEvictor() {
  thread_.request_stop();
  // Exchanged, not only loaded: a thread that is about to sleep finds the flag gone.
  asleep_.store(0, std::memory_order_seq_cst);
  os::futex_wake(asleep_, 1, os::FutexScope::kPrivate);
}

std::uint64_t PagingEvictor::limit() const {
  if (core_.forks().is_child()) return UINT64_MAX;  // It has no thread to keep a budget.
  const std::uint64_t budget = budget_pages_.load(std::memory_order_relaxed);
  const std::uint64_t other = other_pages_.load(std::memory_order_relaxed);
  const std::uint64_t least = std::max(options_.min_pages, budget / 4);
  return budget > other + least ? budget - other : least;
}

// What is free is not used, so it is little: a sixty-fourth, but enough for two sweeps if that is no
// more than a sixteenth, and for a stream (64 pages); and never more than 64 MiB. A fault that finds
// no room sweeps itself, which costs it about what the thread's help would.
std::uint64_t PagingEvictor::slack(std::uint64_t limit) {
  const std::uint64_t least =
      std::clamp<std::uint64_t>(limit / 16, std::min<std::uint64_t>(64, limit / 2), 2 * kSweepPages);
  return std::clamp<std::uint64_t>(limit / 64, least, 16'384);
}

std::size_t PagingEvictor::reserve_up_to(std::size_t pages) {
  const std::size_t reserved = core_.reserve_up_to(pages, limit());
  keep_room();
  return reserved;
}

Result<void> PagingEvictor::reserve_one(Deadline deadline) {
  if (reserve_up_to(1) == 1) return {};
  count(core_.counters().stalls);
  return make_room(deadline);
}

Result<void> PagingEvictor::make_room(Deadline deadline) {
  Error last(ErrorCode::kDeadlineExceeded, "room in the local budget: all of it is pinned or in use");
  while (core_.reserve_up_to(1, limit()) == 0) {
    if (lock_.try_lock()) {
      const Result<std::size_t> swept = sweeper_.sweep(kSweepPages);
      const bool is_held_back = sweeper_.met_held_pages();
      lock_.unlock();
      // Nothing but children keeps pages here: better too much memory than no progress.
      if (swept && *swept == 0 && is_held_back && core_.reserve_up_to(1, UINT64_MAX) == 1) return {};
      if (swept && *swept != 0) continue;
      if (!swept) last = swept.error();
    }
    if (deadline.passed(os::SteadyClock::read())) return std::unexpected(last);
    std::this_thread::yield();
  }
  return {};
}

void PagingEvictor::set_budget_pages(std::uint64_t pages) {
  budget_pages_.store(pages, std::memory_order_relaxed);
  if (core_.resident() >= thread_begins_at()) wake();
}

std::uint64_t PagingEvictor::thread_begins_at() const {
  const std::uint64_t most = limit();
  return faults_sweep_ ? most + 1 : most - slack(most) / 2;
}

void PagingEvictor::keep_room() {
  const std::uint64_t most = limit();
  if (core_.resident() < most - slack(most) / 2) return;
  if (faults_sweep_) {
    sweep_if_nobody_does();
  } else {
    wake();
  }
}

void PagingEvictor::sweep_if_nobody_does() {
  if (!lock_.try_lock()) return;
  // If it fails there is still room; who finds none gets the error.
  (void)sweeper_.sweep(kFaultSweepPages);
  lock_.unlock();
}

void PagingEvictor::wake() {
  // relaxed: who misses a thread that falls asleep now is not alone, or sweeps itself.
  if (asleep_.load(std::memory_order_relaxed) == 0) return;
  if (asleep_.exchange(0, std::memory_order_acq_rel) != 0) {
    os::futex_wake(asleep_, 1, os::FutexScope::kPrivate);
  }
}

void PagingEvictor::sleep(Duration at_most) {
  asleep_.store(1, std::memory_order_seq_cst);
  (void)os::futex_wait(asleep_, 1, os::FutexScope::kPrivate, Deadline::at(os::SteadyClock::read() + at_most));
  asleep_.store(0, std::memory_order_relaxed);
}

Result<void> PagingEvictor::sweep_down() {
  for (;;) {
    // Anew each time: the budget may have changed.
    const std::uint64_t most = limit();
    const std::uint64_t target = most - slack(most);
    if (core_.resident() <= target) return {};
    const sync::SpinGuard guard(lock_);
    YONDER_TRY(swept, sweeper_.sweep(std::min<std::uint64_t>(core_.resident() - target, kSweepPages)));
    if (swept == 0) return {};
  }
}

void PagingEvictor::look_around() {
  core_.forks().release_if_alone([&] { core_.release_holds(); });
  if (!options_.other_memory) return;
  other_pages_.store(options_.other_memory().count() / kPageBytes, std::memory_order_relaxed);
}

void PagingEvictor::run(const std::stop_token& stop) {
  const os::SteadyClock clock;
  LogRateLimit limit_log(clock, std::chrono::seconds(10));
  Instant next_look = clock.now();
  while (!stop.stop_requested()) {
    if (clock.now() >= next_look) {
      look_around();
      next_look = clock.now() + kLookInterval;
    }
    if (core_.resident() >= thread_begins_at()) {
      if (const Result<void> swept = sweep_down(); !swept) {
        process_logger().log(limit_log, LogLevel::kWarn, "heap", "far memory does not take pages",
                             {{"error", swept.error()}});
        sleep(kRetryWriteAfter);
        continue;
      }
    }
    if (!stop.stop_requested()) sleep(kLookInterval);
  }
}

}  // namespace yonder::heap::internal
