#pragma once
// A request on its way, and the two ends of a connection it travels between.
//
// A Flight is one work request from post() to its completion. Its life:
//
//   stage       | where it is                        | pending event
//   ------------+------------------------------------+---------------------------
//   kWaiting    | endpoint, no connection yet        | none
//   kTravelling | on the way to the target           | kArrive or kRetransmit
//   kHeld       | at the target, behind an earlier   | none
//               | one or for want of a receive       |
//   kExecuting  | its effect is under way            | kStep
//   kReturning  | response on the way back           | kReturn, kComplete, kRetransmit
//   kLost       | nowhere: the target's end is gone, | none
//               | the initiator will learn           |
//
// So a flight has at most one pending event, and releasing it to the pool makes
// that event void (its Ref is stale).
//
// An endpoint may give a flight up (deadline, close): the completion is made and
// `endpoint` becomes null, but the message is not called back. It still takes
// effect when it arrives, from a copy of the payload made at that moment. That is
// how a write that its owner believes failed lands late, as on real hardware.
//
// Invariants:
//   F1  endpoint != null ⇔ the flight is in that endpoint's list.
//   F2  Local buffers are touched only while endpoint != null.
//   F3  At the target, flights of a connection are accepted in order of `sequence`,
//       and the effect of one ends before that of the next begins (E1).
//
// Concurrency: one thread. Lifetime: pools of the engine.

#include <cstdint>
#include <vector>

#include "yonder/fabric/handshake.h"
#include "yonder/fabric/sim/internal/pool.h"
#include "yonder/fabric/sim/nic_model.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::sim {

class EndpointImpl;
class HostState;
class ListenerImpl;
class Nic;
class ReceiveBuffers;

enum class Stage : std::uint8_t { kWaiting, kTravelling, kHeld, kExecuting, kReturning, kLost };

struct Flight {
  Ref ref;
  // The endpoint's list of outstanding requests, oldest first.
  Flight* previous = nullptr;
  Flight* next = nullptr;
  EndpointImpl* endpoint = nullptr;

  // What was asked.
  Op op = Op::kRead;
  RequestFlags flags = RequestFlags::kNone;
  std::uint32_t immediate = 0;
  std::uint64_t user_data = 0;
  RemoteAddress remote;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  std::uint64_t length = 0;
  Ticks deadline = 0;
  std::vector<LocalPiece> pieces;
  std::vector<std::byte> payload;  // kInline, or captured when given up
  bool has_payload = false;

  // Where it is.
  Stage stage = Stage::kWaiting;
  bool executed = false;  // A repeated request is answered, not executed, again.
  std::uint8_t losses = 0;
  Ref source;  // queue pairs
  Ref target;
  std::uint64_t sequence = 0;

  // Its effect.
  ErrorCode status = ErrorCode::kOk;
  std::uint64_t value = 0;
  Ref region;
  ReceiveRequest receive;   // of the target, for sends and write-with-immediate
  Ticks begun = 0;          // the effect; later: the response's first byte at the initiator's port
  std::uint64_t moved = 0;  // units
  Ticks interval = 0;
  std::uint32_t unit_bytes = 64;
  std::uint32_t skew = 0;     // of the first byte in its unit
  std::uint32_t shuffle = 0;  // 0: in order; else the odd multiplier of the order
};

// One end of a connection, as its NIC keeps it.
struct QueuePair {
  Ref ref;
  std::uint64_t serial = 0;
  HostState* host = nullptr;
  HostState* peer_host = nullptr;
  Nic* nic = nullptr;
  EndpointImpl* endpoint = nullptr;  // null: a passive listener's end
  ListenerImpl* listener = nullptr;  // of a passive end
  ReceiveBuffers* receives = nullptr;
  Ref peer;
  Identity peer_identity;
  std::uint32_t unit = 0;

  // Requester.
  std::uint64_t next_sequence = 0;
  Ticks last_departure = 0;
  Ticks last_completion = 0;

  // Responder.
  std::uint64_t expected = 0;
  Ticks effect_end = 0;
  struct Held {
    std::uint64_t sequence;
    Ref flight;
  };
  std::vector<Held> held;       // Sorted by sequence; the front may want a receive.
  std::vector<Ref> delivering;  // Flights that took a receive and are copying into it.
};

// A message as its receiver is told of it.
struct Arrival {
  std::uint64_t user_data = 0;               // of the receive
  RequestFlags flags = RequestFlags::kNone;  // of the receive
  std::uint64_t length = 0;
  std::uint32_t immediate = 0;
  Op op = Op::kReceive;
  ErrorCode status = ErrorCode::kOk;
};

constexpr bool needs_receive(Op op) { return op == Op::kSend || op == Op::kWriteImm; }
constexpr bool carries_payload(Op op) { return op == Op::kSend || op == Op::kWrite || op == Op::kWriteImm; }

}  // namespace yonder::fabric::sim
