#pragma once
// The service thread of a fabric: serves peers whose requests no application
// thread serves, and runs the errands (accepting, hand-shakes, dialling).
//
// It spins for kSpin after the last work, reading busy sockets directly, then
// sleeps in epoll with everything it is responsible for; idle it uses no CPU.
//
// Lock order: the service's mutex, then a group's mutex, then an acceptor's or a
// receive queue's. The thread holds its mutex while it runs errands, not while
// it serves streams.
//
// Concurrency: all functions from any thread. Lifetime: the destructor stops the
// thread; everything added must be gone by then (checked).

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/tcp/internal/doorbell.h"
#include "yonder/fabric/tcp/internal/errand.h"
#include "yonder/fabric/tcp/internal/stream_group.h"
#include "yonder/os/epoll.h"

namespace yonder::fabric::tcp {

class Service final : public Watch {
 public:
  static constexpr Duration kSpin = std::chrono::microseconds(50);
  static constexpr Duration kTick = std::chrono::milliseconds(10);

  // Errors: kResourceExhausted (descriptors, threads).
  static Result<std::unique_ptr<Service>> start();
  ~Service();
  // Errors: kInvalidArgument (no such core).
  Result<void> keep_on(unsigned cpu);

  // The group of the passive connections; always the service's.
  const std::shared_ptr<StreamGroup>& passive_group() const { return passive_; }

  // A completion queue's group, from now on until remove_group() returned.
  Result<void> add_group(std::shared_ptr<StreamGroup> group);
  void remove_group(const std::shared_ptr<StreamGroup>& group);
  // The application polls: it serves the group itself.
  void hand_to_application(StreamGroup& group);
  // The application stopped sleeping: watch whether it comes back.
  void ask_for_ticks() {
    if (!ticking_.load()) start_ticking();
  }

  // Errands. cancel() returns when the errand is gone; unknown ids are ignored.
  using ErrandId = std::uint64_t;
  ErrandId run(std::shared_ptr<Errand> errand);
  void cancel(ErrandId id);
  // Runs `call` with the service's mutex held.
  template <typename Call>
  void locked(Call&& call) {
    const std::lock_guard lock(mutex_);
    call();
  }
  // For errands that start others: the mutex is already held.
  ErrandId run_locked(std::shared_ptr<Errand> errand);

 private:
  Service(os::Epoll epoll, std::shared_ptr<Doorbell> bell, std::shared_ptr<StreamGroup> passive);

  void forget(const os::Fd& fd) override;

  void loop();
  bool serve(Instant now);
  void sleep(Instant now);
  Deadline wake_up_time(Instant now);
  void run_errands(std::span<const os::EpollEvent> events, Instant now);
  void step(ErrandId id, Instant now);
  void watch(ErrandId id, const Errand& errand);
  Instant earliest_errand() const;
  void start_ticking();
  void tick(Instant now);
  void take_from_application(StreamGroup& group);
  void refresh_groups();

  os::Epoll epoll_;
  const std::shared_ptr<Doorbell> bell_;
  const std::shared_ptr<StreamGroup> passive_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ticking_{false};

  std::mutex mutex_;
  // All guarded by mutex_.
  std::unordered_map<ErrandId, std::shared_ptr<Errand>> errands_;
  ErrandId next_errand_ = kFirstErrand;
  std::vector<ErrandId> started_;  // Not stepped yet.
  std::vector<std::shared_ptr<StreamGroup>> groups_;

  // The thread's own.
  std::vector<std::shared_ptr<StreamGroup>> known_groups_;
  Instant next_tick_;
  Instant errand_timer_ = kNoTimer;

  static constexpr ErrandId kFirstErrand = 2;  // 0: the bell, 1: a group.
  std::thread thread_;                         // Last: starts when all else is there.
};

}  // namespace yonder::fabric::tcp
