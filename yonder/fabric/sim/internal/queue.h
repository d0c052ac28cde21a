#pragma once
// The completion queue of a simulated thread.
//
// A queue stands for the one thread that uses it: its CPU does one thing at a
// time, so posting and polling push `cpu_free_`, and what comes while the thread
// is busy waits. That makes closed-loop clients as fast as real ones.
//
// Operations are called from the event in which their completion is taken, on
// whatever queue it arrives, so that one Scheduler drives all hosts. Completions
// made outside an event (a bad request at post(), a close()) wait for the next
// wait() or poll(): nothing is called from inside post() or close().
//
// Concurrency: one thread; wake() from any. Lifetime: see CompletionQueue.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/sim/internal/pool.h"
#include "yonder/fabric/sim/nic_model.h"

namespace yonder::fabric::sim {

class Engine;
class HostState;

// First in, first out; grows to its working size and stays there.
class CompletionRing {
 public:
  explicit CompletionRing(std::size_t capacity) : ring_(std::max<std::size_t>(capacity, 1)) {}

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  void push(const Completion& completion) {
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_++) % ring_.size()] = completion;
  }
  // Requires !empty().
  Completion pop() {
    const Completion completion = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return completion;
  }

 private:
  void grow() {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(first_), ring_.end());
    first_ = 0;
    ring_.resize(ring_.size() * 2);
  }

  std::vector<Completion> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

class QueueImpl final : public CompletionQueue {
 public:
  QueueImpl(Engine& engine, HostState& host, std::uint32_t capacity, std::uint32_t socket);
  ~QueueImpl() override;

  void wake() override { woken_.store(true, std::memory_order_release); }
  const Clock& clock() const override;
  void charge(CpuWork work, std::size_t count, std::uint64_t bytes) override;

  // --- For endpoints and the engine.
  std::uint32_t socket() const { return socket_; }
  HostState& host() const { return host_; }
  // Room for an endpoint's completions; false if the capacity does not suffice.
  bool try_reserve(std::uint32_t completions);
  void unreserve(std::uint32_t completions) { reserved_ -= completions; }

  // The thread works for `duration`; returns when it is done.
  Ticks spend(Ticks duration);
  // The thread worked for `duration` until now, if it was free to; else it still does.
  void have_spent(Ticks duration);

  // From an event, as its last act: may call the Operation, which may do anything.
  void deliver(const Completion& completion);
  // From anywhere: the Operation is called later.
  void deliver_later(const Completion& completion);
  // The kDrain event.
  void drain();

  bool has_raw() const { return !raw_.empty(); }
  // So many completions wait that no further request is taken.
  bool is_full() const { return raw_.size() >= capacity(); }
  // release/acquire: what happened before wake() is seen by the woken thread.
  bool take_wake() {
    return woken_.load(std::memory_order_relaxed) && woken_.exchange(false, std::memory_order_acquire);
  }

 protected:
  std::size_t do_poll(std::span<Completion> out) override;
  Result<void> do_wait(Deadline deadline) override;

 private:
  void call(const Completion& completion);
  void schedule_drain();

  Engine& engine_;
  HostState& host_;
  const std::uint32_t socket_;
  Ref ref_;
  std::uint32_t reserved_ = 0;
  Ticks cpu_free_ = 0;
  bool drain_scheduled_ = false;
  CompletionRing raw_;
  CompletionRing operations_;
  std::atomic<bool> woken_ = false;
};

}  // namespace yonder::fabric::sim
