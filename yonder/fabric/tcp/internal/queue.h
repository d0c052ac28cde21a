#pragma once
// The completion queue of the tcp provider.
//
// poll() makes progress for all its endpoints in the caller's thread: it reads
// their reply sockets directly while there are few (kDirect), through epoll when
// there are many, and serves the peers' requests on their other streams
// (attention.h). wait() does the same for the queue's spin time and then sleeps
// in epoll on all of it, and on the group's bell. Sockets that are read directly
// are armed in epoll only for the sleep.
//
// Concurrency: as CompletionQueue; reserve(), release() and join() from any
// thread. Lifetime: outlives its endpoints and seats (checked); outlived by the
// service.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/tcp/internal/account.h"
#include "yonder/fabric/tcp/internal/finished_ring.h"
#include "yonder/fabric/tcp/internal/service.h"
#include "yonder/fabric/tcp/internal/stream_group.h"
#include "yonder/fabric/tcp/internal/timer.h"
#include "yonder/os/epoll.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::tcp {

class TcpEndpoint;

class TcpQueue final : public CompletionQueue {
 public:
  // Errors: kInvalidArgument (capacity 0), kResourceExhausted.
  static Result<std::unique_ptr<TcpQueue>> create(const CompletionQueueOptions& options, Service& service,
                                                  const os::SteadyClock& clock);
  ~TcpQueue() override;

  void wake() override;
  const Clock& clock() const override { return clock_; }

  // Room for an endpoint. Errors: kResourceExhausted.
  Result<Account*> reserve(std::uint32_t depth, std::uint32_t receive_depth);
  // No more will be posted; freed when all completions are polled.
  void release(Account* account);
  // The endpoint takes part from the next poll on. / Not any more.
  void join(TcpEndpoint* endpoint);
  void leave(TcpEndpoint* endpoint);
  // A request of some endpoint ends then at the latest.
  void note_deadline(Instant deadline) { earliest_ = std::min(earliest_, deadline); }

  FinishedRing& finished() { return finished_; }
  const std::shared_ptr<StreamGroup>& group() const { return group_; }
  Service& service() const { return service_; }
  const os::Epoll& epoll() const { return epoll_; }
  Instant now() const { return clock_.now(); }

 private:
  static constexpr std::size_t kDirect = 4;
  // Polls between two looks at endpoints that expect nothing, for a lost peer.
  static constexpr unsigned kIdleLook = 64;

  TcpQueue(const CompletionQueueOptions& options, Service& service, const os::SteadyClock& clock,
           os::Epoll epoll, std::shared_ptr<StreamGroup> group);

  std::size_t do_poll(std::span<Completion> out) override;
  Result<void> do_wait(Deadline deadline) override;

  bool is_ready() const {
    return !finished_.empty() || group_->arrivals().has_any() || woken_.load(std::memory_order_relaxed);
  }
  void progress(Instant now);
  void progress_directly();
  void progress_ready();
  void attend();
  void expire(Instant now);
  void welcome_joining();
  void sleep(Deadline deadline);
  std::size_t take_arrivals(std::span<Completion> out);
  void settle(const Finished& finished);
  void free_if_settled(Account* account);

  Service& service_;
  const os::SteadyClock& clock_;
  const Duration spin_;
  const os::Epoll epoll_;
  const std::shared_ptr<StreamGroup> group_;
  std::atomic<bool> woken_{false};
  std::atomic<bool> has_joining_{false};

  // The queue's thread.
  FinishedRing finished_;
  std::vector<TcpEndpoint*> endpoints_;
  Instant earliest_ = kNoTimer;
  unsigned rounds_ = 0;

  std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<TcpEndpoint*> joining_;
  std::vector<std::unique_ptr<Account>> accounts_;
  std::size_t reserved_ = 0;
};

}  // namespace yonder::fabric::tcp
