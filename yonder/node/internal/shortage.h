#pragma once
// Shortage: calls that wait for memory, and what is done for them.
//
// A handler that finds the node at its limit must not compact before it answers: it runs
// on a poller, and everybody else of that poller would wait as long. So it parks its call
// here and returns. The housekeeper takes it from there: it looks for memory step by step
// (a *round*: what is free but kept, single slots of full frames, then runs of compaction class by class, one
// slice at a time, then on_shortage), tries the calls again after each step, and answers them.
//
//   a call ends when …                                         with
//   an attempt succeeds                                        its answer
//   a round that began after it was parked gained nothing      kOutOfMemory
//   kRounds such rounds gained something, and others got it    kOutOfMemory
//   its deadline passes                                        kDeadlineExceeded
//   the node stops                                             kStopping
//   its client is gone                                         nothing: it is not executed
//
// Calls that arrive later try for themselves first and may be faster; a call that waits
// has no right to what is freed next, it has the rounds.
//
// Concurrency: park() and size() from any thread; the rest by one, the housekeeper.
// Lifetime: heap and clock outlive it. close() comes before the end.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/node/compactor.h"
#include "yonder/node/heap.h"
#include "yonder/sync/mutex.h"

namespace yonder::node::internal {

// What a handler leaves behind.
class WaitingCall {
 public:
  virtual ~WaitingCall() = default;

  // Tries without relief. True: the call is answered. False: the node is at its limit,
  // and nothing was answered.
  virtual bool try_answer() = 0;
  // Answers, with `code` for what the limit prevents.
  virtual void end(ErrorCode code) = 0;
  // Nobody waits for the answer any more.
  virtual bool is_abandoned() const = 0;

 private:
  friend class Shortage;
  Deadline deadline_;
  std::uint64_t parked_in_ = 0;  // How many rounds had begun.
  std::uint32_t rounds_ = 0;     // That gained something, seen from their beginning.
};

class Shortage {
 public:
  struct Options {
    std::size_t max_calls = 128;
    std::function<bool()> on_shortage;  // As HeapOptions'; may be empty.
    std::function<void()> on_park;      // Wakes the housekeeper; called without locks.
  };
  Shortage(Heap& heap, const Clock& clock, Options options);
  ~Shortage();
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;

  // kOk: the call is taken. kOverloaded: max_calls wait already; kStopping: after close().
  ErrorCode park(std::unique_ptr<WaitingCall>& call, Deadline deadline);
  std::size_t size() const { return size_.load(std::memory_order_acquire); }

  // One step towards memory, bounded as a slice is, and an attempt of each call.
  void step(const SliceLimits& limits);
  // Ends all calls, those under way and those to come. Idempotent.
  void close();

 private:
  // How often a call watches others get what was freed.
  static constexpr std::uint32_t kRounds = 8;
  // How long a round waits for threads that look at frames of before.
  static constexpr Duration kPatience = std::chrono::seconds(1);
  enum class Progress : std::uint8_t { kMore, kGained, kNothing };

  void begin_round();
  Progress look_for_memory(const SliceLimits& limits);
  Progress end_round();
  // Calls visit(call), true: it has ended, for each in the order in which they came.
  template <typename Visit>
  void visit_calls(Visit&& visit);
  void try_calls();
  void judge_calls(Progress progress);

  Heap& heap_;
  const Clock& clock_;
  const Options options_;

  // The housekeeper's: the round under way.
  bool in_round_ = false;
  bool gained_ = false;
  std::uint64_t active_before_ = 0;
  std::size_t class_ = 0;
  Deadline patience_;
  std::atomic<std::uint64_t> rounds_begun_{0};

  std::atomic<std::size_t> size_{0};  // Those being tried included.
  sync::Mutex mutex_;
  std::vector<std::unique_ptr<WaitingCall>> calls_ YONDER_GUARDED_BY(mutex_);
  bool closed_ YONDER_GUARDED_BY(mutex_) = false;
};

}  // namespace yonder::node::internal
