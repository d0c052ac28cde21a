#pragma once
// What goes wrong in a simulated world, and when: rates and scheduled actions.
//
//   world.inject({.loss = 0.001, .delay = 0.01, .max_delay = us(50)});
//   world.schedule({.at = start + 5ms, .kind = FaultKind::kCrash, .host = 2});
//
// Rates are drawn from the world's seed, actions happen at their virtual time, so
// a failing run is repeated exactly by its seed. Reliable connections hide losses
// (the message is sent again); what reaches the application is delay, a connection
// that broke, or a request that failed although it may have taken effect.
//
// Concurrency and lifetime: values.

#include <cstdint>
#include <vector>

#include "yonder/base/time.h"
#include "yonder/fabric/sim/nic_model.h"

namespace yonder::fabric::sim {

// Probabilities per message or request; all 0 by default.
struct FaultRates {
  // A message (request or response) is lost and sent again NetworkModel::retransmit
  // later; after NetworkModel::retries in a row the connection breaks.
  double loss = 0;
  // A message takes up to max_delay longer. Order within a connection holds.
  double delay = 0;
  Ticks max_delay = us(100);
  // A request fails alone with kConnectionLost; whether it took effect is a toss.
  double completion_error = 0;
  // The connection of a request breaks after the request took effect.
  double connection_break = 0;
  // A read or write moves its bytes in units of tear_bytes, in a shuffled order,
  // with a pause of tear_pause between two units: whoever writes meanwhile is seen
  // in pieces. Without it bytes move in lines of 64, in order, at the bus's pace.
  double tear = 0;
  std::uint32_t tear_bytes = 8;  // 8, 16, 32 or 64
  Ticks tear_pause = ns(100);
};

enum class FaultKind : std::uint8_t {
  kCrash,      // `host` loses its memory registrations, connections and listeners
  kRestart,    // … and is there again, empty
  kPartition,  // no message passes between `hosts` and all others
  kHeal,       // all partitions end
  kSlow,       // CPU and NIC of `host` take percent / 100 times as long
  kBreak,      // every connection of `host` breaks
};

struct FaultAction {
  Instant at;
  FaultKind kind = FaultKind::kCrash;
  std::uint32_t host = 0;
  std::vector<std::uint32_t> hosts;  // kPartition
  std::uint32_t percent = 100;       // kSlow
};

}  // namespace yonder::fabric::sim
