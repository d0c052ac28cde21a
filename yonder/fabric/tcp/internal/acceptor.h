#pragma once
// The acceptor: a listening socket, the hand-shakes of its clients, and the
// connections that wait to be accepted by the application.
//
//   accept ─► Greeter (one per stream) ─┬─ passive ─► TargetStream in the service's group
//                                       └─ active: ticket, wait for the second stream
//                                          ─► Seat in a queue's group ─► accept()
//
// From the moment the second stream is there the peer's one-sided requests are
// served, whether or not anybody calls accept(); its messages wait for receives.
//
// Bounds: max_connections connections (those in their hand-shake included) and
// as many streams; beyond, peers are told kResourceExhausted. Out of
// descriptors: the clients stay in the kernel's backlog, one line is logged, and
// accepting goes on after a pause.
//
// Concurrency: errand functions under the service's lock; accept(), close() and
// connection_count() from any thread. Lifetime: shared by the Listener, the service, and
// (weakly) its greeters.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/tcp/internal/errand.h"
#include "yonder/fabric/tcp/internal/opening.h"
#include "yonder/fabric/tcp/internal/seat.h"
#include "yonder/fabric/tcp/internal/service.h"
#include "yonder/fabric/tcp/internal/settings.h"
#include "yonder/fabric/tcp/internal/stream_group.h"
#include "yonder/fabric/tcp/internal/tls.h"

namespace yonder::fabric::tcp {

class TcpQueue;

// An accepted connection on its way to the application.
struct Accepted {
  Seat seat;
  std::unique_ptr<Transport> requests;
  Agreement agreement;
};

class Acceptor final : public Errand, public std::enable_shared_from_this<Acceptor> {
 public:
  // What an acceptor needs of its fabric.
  struct Context {
    TargetContext target;
    std::shared_ptr<StreamGroup> passive_group;
    std::uint64_t process;
    Duration handshake_timeout;
    Watch& watch;
    // Hands a new errand to the service; under its lock.
    std::function<void(std::unique_ptr<Errand>)> start;
    std::function<EndpointId()> next_endpoint_id;
    std::function<void(const char*, const Error&)> report;
  };

  Acceptor(Context context, ListenOptions options, os::Socket socket, std::shared_ptr<TlsContext> tls);
  ~Acceptor() override;

  // Errand.
  bool step(Instant now) override;
  const os::Fd* fd() const override {
    return is_closed() || paused_until_ != Instant() ? nullptr : &socket_.fd();
  }
  std::uint32_t interest() const override;
  Instant next_timer() const override;

  // For the Listener.
  Result<Accepted> accept(Deadline deadline);
  std::size_t connection_count() const { return live_->load(std::memory_order_relaxed); }
  void close(Service& service);
  const os::Socket& socket() const { return socket_; }
  const ListenOptions& options() const { return options_; }

 private:
  friend class Greeter;
  // A first stream whose hand-shake is over.
  struct Welcome {
    std::uint64_t ticket = 0;
    std::unique_ptr<Transport> transport;
    Agreement agreement;
    std::shared_ptr<void> live;
  };
  // One that waits for its second.
  struct Half {
    Welcome guest;
    Instant deadline;
  };

  bool is_closed() const { return closed_.load(std::memory_order_acquire); }
  void admit(os::Socket socket, Instant now);
  void pause(const Error& why, Instant now);
  void drop_old_halves(Instant now);
  // Counts a connection for as long as the returned token lives; null if full.
  std::shared_ptr<void> count_connection();

  // What to tell a peer. A welcome connection is counted from here on.
  ListenerPreface judge(const OpenerPreface& preface, std::shared_ptr<void>& live);
  // What to do once a first / second stream has been told.
  Result<void> welcome(Welcome guest, Instant now);
  Result<void> join(std::uint64_t ticket, std::unique_ptr<Transport> second);
  Result<void> serve_passively(Welcome guest);

  const Context context_;
  const ListenOptions options_;
  const os::Socket socket_;
  const std::shared_ptr<TlsContext> tls_;
  const std::shared_ptr<std::atomic<std::size_t>> live_;
  std::atomic<bool> closed_{false};

  // Guarded by the service's lock.
  Instant paused_until_;
  std::size_t greeting_now_ = 0;
  std::size_t next_queue_ = 0;
  std::unordered_map<std::uint64_t, Half> halves_;

  std::mutex mutex_;
  std::condition_variable accepted_changed_;
  std::deque<Accepted> accepted_;  // Guarded by mutex_; at most max_connections.
};

}  // namespace yonder::fabric::tcp
