#pragma once
// A seat: an endpoint's place in a completion queue before (and while) the
// endpoint exists: its reservation, its inbox, and the stream on which its peer
// is served.
//
// Concurrency: one owner. Lifetime: gives everything back when it goes; the
// queue outlives it.

#include <memory>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/tcp/internal/account.h"
#include "yonder/fabric/tcp/internal/inbox.h"
#include "yonder/fabric/tcp/internal/stream_group.h"

namespace yonder::fabric::tcp {

class TcpQueue;

class Seat {
 public:
  // Errors: kResourceExhausted (the queue is too small), kInvalidArgument.
  static Result<Seat> take(TcpQueue& queue, EndpointId id, const EndpointOptions& options);

  Seat() = default;
  Seat(Seat&& other) noexcept { *this = std::move(other); }
  Seat& operator=(Seat&& other) noexcept;
  ~Seat() { leave(); }

  // Serves the peer on `transport` from now on. Errors: kResourceExhausted, kOsError.
  Result<void> serve(std::unique_ptr<Transport> transport, const TargetContext& context, TenantId tenant,
                     std::shared_ptr<void> live);
  // Stops serving; ends all receives with `status`.
  void stop_serving(ErrorCode status);

  // A receive was posted: a message may wait for it. Under the group's mutex.
  void nudge(Instant now);

  TcpQueue& queue() const { return *queue_; }
  Account& account() const { return *account_; }
  EndpointId id() const { return id_; }
  const EndpointOptions& options() const { return options_; }
  const std::shared_ptr<Inbox>& inbox() const { return inbox_; }

 private:
  void leave();

  TcpQueue* queue_ = nullptr;  // Null: moved from.
  Account* account_ = nullptr;
  EndpointId id_;
  EndpointOptions options_;
  std::shared_ptr<Inbox> inbox_;
  StreamId stream_;
  bool is_served_ = false;
};

}  // namespace yonder::fabric::tcp
