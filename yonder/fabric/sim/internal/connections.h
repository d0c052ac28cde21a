#pragma once
// How connections come and go: handshakes, losses, crashes.
//
// Concurrency: one thread. Lifetime: part of the engine.

#include <cstdint>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/sim/internal/flight.h"

namespace yonder::fabric::sim {

class EndpointImpl;
class Engine;
class HostState;
class ListenerImpl;

class Connections {
 public:
  explicit Connections(Engine& engine) : engine_(engine) {}

  // --- Handshake. An attempt is numbered, so that late answers are recognised.
  // A new attempt, now.
  void dial(EndpointImpl& endpoint);
  void on_dial(EndpointImpl& endpoint);
  void on_request(EndpointImpl& endpoint, std::uint32_t attempt);
  void on_reply(EndpointImpl& endpoint, std::uint32_t attempt);
  void on_give_up(EndpointImpl& endpoint, std::uint32_t attempt);

  // --- End.
  // This end is gone without a word: posted receives and outstanding requests end
  // with `status`, its endpoint (if any) is told. The peer is not.
  void drop(QueuePair& pair, ErrorCode status);
  // drop(), and the peer hears of it one way later if it can.
  void close(QueuePair& pair, ErrorCode status);
  // Both ends break now, as after a fatal error of the queue pair.
  void break_both(QueuePair& pair);

  // A request has nowhere to go: it waits for its end to fail it, unless it was
  // given up already.
  void lose(Flight& flight);
  // A request came for a connection that is not there: its sender is told, if
  // the host can speak.
  void answer_stranger(Flight& flight);

  void crash(HostState& host);
  void break_all(HostState& host);

 private:
  Result<void> admit(EndpointImpl& endpoint, HostState& target);
  QueuePair& make_end(HostState& host, HostState& peer, std::uint32_t nic);
  void make_pair(EndpointImpl& endpoint, ListenerImpl& listener, HostState& target, EndpointImpl* accepted,
                 const Agreement& at_target);
  std::vector<Ref> ends_of(const HostState& host);

  Engine& engine_;
};

}  // namespace yonder::fabric::sim
