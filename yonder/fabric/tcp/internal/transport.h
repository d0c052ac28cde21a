#pragma once
// Transport: a connected socket, plain or under TLS, seen as bytes.
//
// Everything is non-blocking: "nothing now" is a count of 0, the end of the
// connection is an error. One virtual call moves a whole batch.
//
// Concurrency: one thread at a time. Lifetime: owns its socket; the buffers
// named by iovecs are free again when the call returns.

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "yonder/base/result.h"
#include "yonder/os/socket.h"

namespace yonder::fabric::tcp {

class Transport {
 public:
  enum class Want : std::uint8_t { kRead, kWrite, kNothing };

  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Goes on with what must happen before bytes can flow (TLS). kNothing: done.
  // Errors: kAuthenticationFailed, kProtocolMismatch, kConnectionLost.
  virtual Result<Want> prepare() { return Want::kNothing; }

  // Fills the front of the buffers. Errors: kConnectionLost, kOsError,
  // kAuthenticationFailed (TLS alert).
  virtual Result<std::size_t> receive(std::span<const iovec> into) = 0;
  // Takes the front of the bytes. The transport may still hold some of what it
  // took: then unsent() is true and flush() goes on.
  virtual Result<std::size_t> send(std::span<const iovec> from) = 0;
  virtual Result<void> flush() { return {}; }
  virtual bool unsent() const { return false; }
  // True if receive() would give bytes although the socket is not readable.
  virtual bool has_buffered() const { return false; }

  const os::Socket& socket() const { return socket_; }

 protected:
  explicit Transport(os::Socket socket) : socket_(std::move(socket)) {}

 private:
  os::Socket socket_;
};

// TCP as it is. Sets no socket options (see configure_socket).
std::unique_ptr<Transport> make_plain_transport(os::Socket socket);

// What every data socket gets: no delay, a bound on unacknowledged data, and
// keep-alive, so that a peer whose host vanished is noticed.
Result<void> configure_socket(const os::Socket& socket);

}  // namespace yonder::fabric::tcp
