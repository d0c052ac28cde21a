#pragma once
// A link: the streams of one connection after the hand-shake.
//
// Concurrency: values, moved. Lifetime: owns its transports.

#include <memory>
#include <vector>

#include "yonder/fabric/handshake.h"
#include "yonder/fabric/tcp/internal/transport.h"

namespace yonder::fabric::tcp {

struct Link {
  std::unique_ptr<Transport> requests;  // We are the initiator on this stream.
  std::unique_ptr<Transport> serving;   // We are the target; null if the peer is passive.
  Agreement agreement;
  std::vector<std::byte> greeting;
};

}  // namespace yonder::fabric::tcp
