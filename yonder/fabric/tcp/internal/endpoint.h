#pragma once
// An endpoint of the tcp provider: its requests on one stream, its peer's on
// another, and what happens when they break.
//
// Concurrency: the thread of its queue. Lifetime: as Endpoint.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/tcp/internal/dial.h"
#include "yonder/fabric/tcp/internal/initiator_stream.h"
#include "yonder/fabric/tcp/internal/link.h"
#include "yonder/fabric/tcp/internal/queue.h"
#include "yonder/fabric/tcp/internal/seat.h"

namespace yonder::fabric::tcp {

// How an endpoint gets a new link after a loss; without one it stays broken.
struct Redial {
  std::shared_ptr<const DialTarget> target;
  std::uint64_t seed = 0;
};

class TcpEndpoint final : public Endpoint {
 public:
  struct Options {
    TargetContext context;
    Identity identity;
    std::optional<Redial> redial;
  };
  TcpEndpoint(Seat seat, Options options);
  ~TcpEndpoint() override { TcpEndpoint::close(); }

  // Takes the link into use. Errors: kResourceExhausted, kOsError.
  Result<void> open(Link link);
  // Takes part in its queue from the next poll on.
  void queue_join() { tcp_queue().join(this); }

  Result<void> post_receive(std::span<const ReceiveRequest> receives) override;
  void close() override;
  EndpointState state() const override { return state_; }
  const Limits& limits() const override { return requests_.limits(); }
  const Agreement& agreement() const override { return agreement_; }
  std::span<const std::byte> greeting() const override { return greeting_; }

  // For the queue.
  bool has_outstanding() const { return requests_.has_outstanding(); }
  // True if anything moved.
  bool progress();
  // Ends what is past its deadline; returns when to call again.
  Instant expire(Instant now);
  // The peer's stream was lost, or a new link is there.
  void take_news();
  // The queue's epoll tells when there is something to do. / It is read directly.
  void arm();
  void disarm();

 private:
  // Where the service leaves the outcome of a dial.
  struct Mailbox {
    std::mutex mutex;
    std::optional<Result<Link>> outcome;  // Guarded by mutex.
  };

  Result<std::size_t> do_post(std::span<const WorkRequest> requests) override;
  std::size_t post_now(std::span<const WorkRequest> requests, Instant now);
  TcpQueue& tcp_queue() const { return seat_.queue(); }
  void lose();
  void redial();
  void take_outcome();
  void set_interest(std::uint32_t interest);

  Seat seat_;
  const Options options_;
  InitiatorStream requests_;
  Agreement agreement_;
  std::vector<std::byte> greeting_;
  EndpointState state_ = EndpointState::kReconnecting;
  std::uint32_t interest_ = 0;        // As the queue's epoll knows it.
  std::shared_ptr<Mailbox> mailbox_;  // While dialling.
  Service::ErrandId dial_ = 0;
  std::uint64_t dials_ = 0;
};

}  // namespace yonder::fabric::tcp
