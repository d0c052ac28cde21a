#pragma once
// Requests on their way: out of the initiator's NIC, into the target's memory,
// back again. See flight.h for the stages.
//
// Concurrency: one thread. Lifetime: part of the engine.

#include <cstdint>

#include "yonder/fabric/sim/internal/flight.h"
#include "yonder/fabric/sim/internal/nic.h"

namespace yonder::fabric::sim {

class Engine;
class RegionImpl;

class Transport {
 public:
  explicit Transport(Engine& engine) : engine_(engine) {}

  // --- Requester (requester.cc).
  // The NIC has the request at `at`; it leaves for the peer of its endpoint's
  // queue pair.
  void launch(Flight& flight, QueuePair& pair, Ticks at);
  void on_retransmit(Flight& flight);
  void on_return(Flight& flight);
  void on_complete(Flight& flight);

  // --- Responder (responder.cc).
  void on_arrive(Flight& flight);
  void on_step(Flight& flight);
  // A receive was posted: flights that waited for one go on.
  void on_receive_posted(QueuePair& pair);

 private:
  Ticks send(Flight& flight, QueuePair& pair, Ticks at);
  void retry_later(Flight& flight);
  bool is_lost(const HostState& from, const HostState& to);
  Ticks travel_time(const HostState& from, const HostState& to);
  Penalty touch_local(QueuePair& pair, const Flight& flight, bool& far_memory);
  void finish_at_initiator(Flight& flight, QueuePair& source, Ticks at);

  // Takes the next flight of the connection in; false if it must wait for a receive.
  bool accept(Flight& flight, QueuePair& pair);
  void hold(Flight& flight, QueuePair& pair);
  void release_held(QueuePair& pair);
  ErrorCode find_region(const Flight& flight, const QueuePair& pair, RegionImpl*& region) const;
  void plan_effect(Flight& flight, QueuePair& pair, RegionImpl* region, Penalty penalty);
  Effect plan_on_nic(const Flight& flight, QueuePair& pair, std::uint32_t units, bool far_memory,
                     Penalty penalty);
  void refuse(Flight& flight, QueuePair& pair, ErrorCode status, Penalty penalty);
  void choose_units(Flight& flight, std::uint32_t skew);
  std::uint64_t units_of(const Flight& flight) const;
  // Moves the next unit of bytes.
  void move_unit(Flight& flight, std::byte* memory);
  void execute_atomic(Flight& flight, std::byte* word);
  void end_effect(Flight& flight, QueuePair& pair);
  void respond(Flight& flight, QueuePair& pair, Ticks at);

  Engine& engine_;
};

}  // namespace yonder::fabric::sim
