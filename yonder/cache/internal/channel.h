#pragma once
// Channel: the bytes of one client or server, plain or under TLS.
//
// Concurrency: one thread. Lifetime: owns the socket.

#include <cstddef>
#include <memory>
#include <span>

#include "yonder/base/result.h"
#include "yonder/os/socket.h"

namespace yonder::cache {

class Channel {
 public:
  virtual ~Channel() = default;
  // What is there or fits now; 0: nothing now. Errors: kConnectionLost (the end too), kOsError.
  virtual Result<std::size_t> receive(std::span<char> to) = 0;
  virtual Result<std::size_t> send(std::span<const char> from) = 0;
  // Bytes have come that the socket no longer tells of.
  virtual bool holds_input() const { return false; }
  // Reading goes on only after something was sent (a TLS handshake).
  virtual bool must_send() const { return false; }
  // Sending goes on only after something was received (a TLS handshake).
  virtual bool must_receive() const { return false; }
  // The other side has proved that it is a server of this cluster.
  virtual bool is_server() const { return false; }
  virtual const os::Socket& socket() const = 0;
};

std::unique_ptr<Channel> make_plain_channel(os::Socket socket);

}  // namespace yonder::cache
