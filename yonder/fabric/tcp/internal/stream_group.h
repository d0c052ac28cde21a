#pragma once
// A group of target streams that are served together, by one thread at a time.
//
// The streams of all endpoints on one completion queue form a group, and so do
// the passive connections of a fabric. A group can be served by anybody who
// takes its mutex: the application's thread while it polls its queue (no
// hand-over on the latency path), or the fabric's service thread while the
// application does something else (attention.h decides). Its epoll descriptor
// becomes readable when there is something to do, so one group is one entry in
// the service's own epoll.
//
// Busy streams are read directly, without asking epoll first, which saves a
// system call per round trip; epoll finds the others every kDirectRounds. While a
// stream is busy it is also disarmed in epoll, or each packet would pay for
// putting it on the ready lists; prepare_to_sleep() arms them all.
//
// Concurrency: everything under mutex(), except fd(), arrivals().has_any(),
// bell() and is_empty(). Lifetime: shared by its queue and the service.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/tcp/internal/attention.h"
#include "yonder/fabric/tcp/internal/doorbell.h"
#include "yonder/fabric/tcp/internal/inbox.h"
#include "yonder/fabric/tcp/internal/target_stream.h"
#include "yonder/fabric/tcp/internal/timer.h"
#include "yonder/os/epoll.h"

namespace yonder::fabric::tcp {

// Names a stream of a group: a slot and its use, so that a stale name is harmless.
struct StreamId {
  std::uint32_t slot = 0;
  std::uint32_t use = 0;
};

class StreamGroup final : public Kick {
 public:
  // `arrivals`: the capacity of the completion queue; 0 for passive streams.
  // Errors: kResourceExhausted.
  static Result<std::shared_ptr<StreamGroup>> create(std::size_t arrivals);
  StreamGroup(os::Epoll epoll, std::shared_ptr<Doorbell> bell, std::size_t arrivals)
      : epoll_(std::move(epoll)), bell_(std::move(bell)), arrivals_(arrivals) {}

  std::mutex& mutex() { return mutex_; }
  const os::Fd& fd() const { return epoll_.fd(); }
  Arrivals& arrivals() { return arrivals_; }
  // The bell of the queue's thread: completions, news, or work to do.
  const std::shared_ptr<Doorbell>& bell() const { return bell_; }
  // Of the service, for when the group is the service's.
  void set_service_bell(std::shared_ptr<Doorbell> bell) { service_bell_ = std::move(bell); }
  // Receives came for streams that wait for some: wakes whoever serves.
  void kick() override;
  bool is_kicked() const { return kicked_.load(std::memory_order_relaxed); }
  // Something happened to an endpoint of the queue: its stream was lost, or it
  // has a new link. Any thread tells; the queue's thread takes.
  void tell_news() {
    news_.store(true);
    bell_->ring();
  }
  bool has_news() const { return news_.load(std::memory_order_relaxed); }
  bool take_news() { return has_news() && news_.exchange(false); }
  bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }

  // Errors: kResourceExhausted, kOsError (epoll).
  Result<StreamId> add(std::unique_ptr<TargetStream> stream);
  // Ends a stream; nothing happens if it has ended already.
  void remove(StreamId id);
  void remove_all_of(const void* owner);
  // Serves one stream now: its endpoint has posted a receive.
  void nudge(StreamId id, Instant now);

  // Serves what is busy, and now and then everything that is ready. True if
  // anything was done.
  bool progress(Instant now);
  // Before anybody sleeps on fd(): it becomes readable when there is something to
  // do, and the next progress() asks it.
  void prepare_to_sleep();
  // True if progress() should be called again without sleeping.
  bool wants_turn() const;
  Attention& attention() { return attention_; }
  // When progress() must be called at the latest.
  Instant next_timer() const;

 private:
  struct Slot {
    std::unique_ptr<TargetStream> stream;
    std::uint32_t use = 0;
    std::uint32_t interest = 0;
  };
  static constexpr std::size_t kBusy = 4;
  static constexpr unsigned kDirectRounds = 16;
  // Looks in vain, about 20 us of spinning, after which a stream is not busy.
  static constexpr unsigned kPatience = 64;
  static constexpr std::uint32_t kNone = UINT32_MAX;

  bool serve(std::uint32_t slot, Instant now);
  bool serve_busy(Instant now);
  bool serve_ready(Instant now);
  bool serve_due(Instant now, bool receives_came);
  void lose(std::uint32_t slot, const Error& why);
  bool is_busy(std::uint32_t slot) const;
  void leave_to_epoll(std::uint32_t slot);
  void set_interest(std::uint32_t slot, std::uint32_t interest);
  TargetStream* find(StreamId id);
  void note_busy(std::uint32_t slot);
  void free_slot(std::uint32_t slot);

  std::mutex mutex_;
  os::Epoll epoll_;
  const std::shared_ptr<Doorbell> bell_;
  std::shared_ptr<Doorbell> service_bell_;  // Set once, before there are streams.
  Arrivals arrivals_;
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> news_{false};
  std::atomic<bool> kicked_{false};
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::array<std::uint32_t, kBusy> busy_{kNone, kNone, kNone, kNone};
  std::array<unsigned, kBusy> in_vain_{};
  std::size_t next_busy_ = 0;
  unsigned rounds_ = 0;
  Attention attention_;
  Instant timer_ = kNoTimer;  // A lower bound over all streams.
};

}  // namespace yonder::fabric::tcp
