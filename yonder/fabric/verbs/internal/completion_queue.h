#pragma once
// The completion queue: a real ibv_cq with its event channel, and the place
// where the endpoints' own clockwork (deadlines, new links) is driven from.
//
// poll() moves completions of the NIC to their endpoints, which put finished
// ones into the ready ring; from there the caller gets them. wait() spins, then
// arms the event channel, looks once more and sleeps on three things: the
// channel, the bell (service thread, wake()) and the next timer.
//
// Bounds: an endpoint reserves its depths of `capacity`. The ready ring has four
// times that: post() is refused (room()) while ready and outstanding completions
// reach twice the capacity, and what a shared receive queue can add is at most
// one capacity more.
//
// Concurrency: as CompletionQueue; reserve(), release(), attach() and detach()
// from any thread.
// Lifetime: outlives its endpoints (checked).

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/verbs/internal/bell.h"
#include "yonder/fabric/verbs/internal/device.h"
#include "yonder/fabric/verbs/internal/receive_queue.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::verbs {

class VerbsEndpoint;

class VerbsQueue final : public CompletionQueue {
 public:
  // With less than the wanted capacity where the device holds no more: a server
  // that wants room for all it might ever serve gets what there is.
  static Result<std::unique_ptr<CompletionQueue>> create(std::shared_ptr<Device> device,
                                                         CompletionQueueOptions options);
  ~VerbsQueue() override;

  void wake() override;
  const Clock& clock() const override { return clock_; }

  // ---- any thread
  ibv_cq* cq() const { return cq_; }
  const std::shared_ptr<Bell>& bell() const { return bell_; }
  // Room for an endpoint's completions, and for those of its shared queue if no
  // endpoint here used that one before. kResourceExhausted.
  Result<void> reserve(std::uint32_t completions, const VerbsReceiveQueue* shared);
  void release(std::uint32_t completions);
  void attach(VerbsEndpoint& endpoint);
  void detach(VerbsEndpoint& endpoint);

  // ---- for endpoints, on the queue's thread
  // How many more requests may be outstanding.
  std::size_t room() const;
  void begin(std::size_t requests) { outstanding_ += requests; }
  // One outstanding request or receive ended, with or without a completion.
  void end(const Completion& completion);
  void end_silently() { --outstanding_; }
  void map_qp(std::uint32_t qp_number, VerbsEndpoint& endpoint);
  void unmap_qp(std::uint32_t qp_number);
  // Call on_time() not later than `instant`.
  void note_timer(Instant instant) { next_timer_ = std::min(next_timer_, instant); }
  // Gives the endpoints what the service thread has for them.
  void attend();
  // Some endpoint's link failed: recover() it soon.
  void note_failure() { has_failures_ = true; }
  // Hands the NIC's completions to their endpoints: up to `limit`, or all there
  // are. Returns how many.
  std::size_t take_from_nic(std::size_t limit);

 protected:
  std::size_t do_poll(std::span<Completion> out) override;
  Result<void> do_wait(Deadline deadline) override;

 private:
  VerbsQueue(std::shared_ptr<Device> device, const CompletionQueueOptions& options,
             std::shared_ptr<Bell> bell);
  Result<void> open();

  void progress();
  void check_timers(Instant now);
  void dispatch_wc(const ibv_wc& wc);
  void dispatch_shared(ReceiveSlot& slot, const ibv_wc& wc);
  void deliver_orphans();
  void push(const Completion& completion);
  std::size_t pop(std::span<Completion> out);
  void sleep(Deadline deadline);
  void take_events();

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Bell> bell_;
  const Duration spin_;
  os::SteadyClock clock_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::atomic<bool> woken_{false};

  // The queue's thread.
  std::vector<Completion> ready_;  // A ring, a power of two.
  std::uint64_t ready_head_ = 0;
  std::uint64_t ready_tail_ = 0;
  std::size_t outstanding_ = 0;
  std::unordered_map<std::uint32_t, VerbsEndpoint*> by_qp_;  // For messages out of shared queues.
  std::vector<std::pair<ReceiveSlot*, ibv_wc>> orphans_;     // Messages for endpoints not accepted yet.
  Instant next_timer_ = Deadline::never().instant();
  unsigned idle_polls_ = 0;
  unsigned unacknowledged_events_ = 0;
  bool has_failures_ = false;

  std::mutex mutex_;
  std::vector<VerbsEndpoint*> endpoints_;                // guarded by mutex_
  std::vector<const VerbsReceiveQueue*> shared_queues_;  // guarded by mutex_
  std::uint32_t reserved_ = 0;                           // guarded by mutex_
  std::uint32_t reserved_shared_ = 0;                    // guarded by mutex_
};

}  // namespace yonder::fabric::verbs
