#pragma once
// An endpoint in a simulated world: the list of its outstanding requests, its
// posted receives, and the connection under it, which may change.
//
// Concurrency: one thread. Lifetime: owned by the application; flights it gave up
// and events that name it outlive it (see flight.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/sim/internal/flight.h"
#include "yonder/fabric/sim/internal/receive_buffers.h"

namespace yonder::fabric::sim {

class Engine;
class HostState;
class Nic;
class QueueImpl;

// How the connecting side reaches its listener, again and again.
struct Dial {
  ConnectOptions options;
  std::string host;
  std::uint16_t port = 0;
  bool first = true;       // connect() has not returned yet
  bool under_way = false;  // an attempt is running
  std::uint32_t attempt = 0;
  Duration backoff{0};
  // The answer, on its way back, and the end made for it.
  Result<void> answer;
  Ref pair;
  Agreement agreement;
  std::vector<std::byte> greeting;
};

class EndpointImpl final : public Endpoint {
 public:
  EndpointImpl(Engine& engine, HostState& host, QueueImpl& queue, const EndpointOptions& options,
               std::uint32_t nic);
  ~EndpointImpl() override;

  Result<void> post_receive(std::span<const ReceiveRequest> receives) override;
  void close() override;
  EndpointState state() const override { return state_; }
  const Limits& limits() const override { return limits_; }
  const Agreement& agreement() const override { return agreement_; }
  std::span<const std::byte> greeting() const override { return greeting_; }

  // What an endpoint reserves of its queue.
  static std::uint32_t reservation(const EndpointOptions& options) {
    return options.depth + (options.receive_queue != nullptr ? 0 : options.receive_depth);
  }

  // --- For the engine.
  Ref ref() const { return ref_; }
  HostState& host() const { return host_; }
  Nic& nic() const;
  std::uint32_t nic_index() const { return nic_; }
  QueueImpl& queue_impl() const { return queue_; }
  ReceiveBuffers& receives() { return *receives_; }
  std::optional<Dial>& dial() { return dial_; }
  QueuePair* pair() const { return pair_; }

  // The handshake gave us this end.
  void open(QueuePair& pair, const Agreement& agreement, std::span<const std::byte> greeting);
  // The end is gone: everything on it fails with `status`; dials again if it may.
  void lose(ErrorCode status);
  // The answer to a dial came, or did not (kDeadlineExceeded).
  void answered(Result<void> answer);
  // CPU time of copying a flight's unregistered pieces.
  Ticks bounce_cost(const Flight& flight) const;
  // The response of a flight is here: makes the completion, releases the flight.
  void finish(Flight& flight);
  // The kExpire event: fails what is past its deadline.
  void expire();
  // A message for us ended, well or badly.
  Completion receive_completion(const Arrival& arrival) const;

 private:
  Result<std::size_t> do_post(std::span<const WorkRequest> requests) override;
  Flight& make_flight(const WorkRequest& request);
  ErrorCode refusal(const WorkRequest& request, Ticks deadline) const;
  void refuse(const WorkRequest& request, ErrorCode status);
  void ring_doorbell(Ticks cpu);
  Ticks cpu_cost(const Flight& flight) const;

  void append(Flight& flight);
  void remove(Flight& flight);
  void arm_expiry(Ticks deadline);
  Completion completion_of(const Flight& flight) const;
  void count_ended();
  // Completes it with `status`; it may still take effect (flight.h).
  void give_up(Flight& flight, ErrorCode status);
  void give_up_all(ErrorCode status);
  void give_up_sent(ErrorCode status);
  void flush_receives(ErrorCode status);
  void dial_later();

  Engine& engine_;
  HostState& host_;
  QueueImpl& queue_;
  const std::uint32_t nic_;
  const std::uint32_t reserved_;
  const Duration default_timeout_;
  Limits limits_;
  Agreement agreement_;
  std::vector<std::byte> greeting_;
  Ref ref_;
  EndpointState state_ = EndpointState::kReconnecting;
  QueuePair* pair_ = nullptr;  // Null unless kOpen.
  std::optional<Dial> dial_;   // Connecting side only.

  // Outstanding requests, oldest first.
  Flight* first_ = nullptr;
  Flight* last_ = nullptr;
  std::uint32_t outstanding_ = 0;       // Counted against the depth.
  std::uint32_t unsignalled_done_ = 0;  // Of these, done without a completion.
  std::vector<Flight*> batch_;          // Of the post() that is running.
  Ticks expiry_ = 0;                    // When the kExpire event is due; 0: none.

  ReceiveBuffers own_receives_;
  ReceiveBuffers* receives_;
};

}  // namespace yonder::fabric::sim
