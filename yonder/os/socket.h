#pragma once
// Socket: a TCP or Unix socket, always non-blocking, with waits that have a
// deadline.
//
//   YONDER_TRY(addresses, SocketAddress::resolve("127.0.0.1:0", {.for_listening = true}));
//   YONDER_TRY(listener, Socket::listen(addresses[0], {}));
//   YONDER_TRY(client, Socket::connect(listener.local_address().value(), {}, deadline));
//   YONDER_TRY(server, listener.accept(deadline));
//
// Sending never raises SIGPIPE. "Nothing now" is a count of 0, never an error;
// the end of the stream is kConnectionLost, never a count.
//
// Concurrency: one thread may send while another receives. Lifetime: owns its
// descriptor; move-only. Buffers belong to the caller and are free on return.

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/address.h"
#include "yonder/os/fd.h"

namespace yonder::os {

enum class SocketKind : std::uint8_t {
  kStream,     // Bytes in order: TCP, or Unix stream.
  kSeqpacket,  // Messages in order: Unix only.
};

struct ListenOptions {
  SocketKind kind = SocketKind::kStream;
  int backlog = 1024;
  // Whether several processes may listen at one TCP port and share its clients.
  bool reuse_port = false;
};

struct ConnectOptions {
  SocketKind kind = SocketKind::kStream;
};

struct KeepAlive {
  std::chrono::seconds idle{10};     // Quiet time before the first probe.
  std::chrono::seconds interval{3};  // Between probes.
  int probes = 3;                    // Unanswered ones that break the connection.
};

// Who is at the other end of a Unix socket, as the kernel saw it at connect().
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};

class Socket {
 public:
  Socket() = default;
  // Takes over a connected or listening socket and makes it non-blocking.
  static Result<Socket> adopt(Fd fd);

  // TCP listeners set SO_REUSEADDR, so that a restart need not wait for old
  // connections to time out. Errors: kAlreadyExists (address taken),
  // kPermissionDenied, kResourceExhausted (descriptors), kOsError.
  static Result<Socket> listen(const SocketAddress& address, const ListenOptions& options);
  // Errors: kConnectionRefused (nobody listens), kDeadlineExceeded, kNotFound
  // (Unix path), kResourceExhausted, kOsError (unreachable, say).
  static Result<Socket> connect(const SocketAddress& address, const ConnectOptions& options,
                                Deadline deadline);
  // Begins to connect and does not wait: when the socket gets writable it is connected, or its
  // next operation says why not. Errors as connect; kOverloaded (a Unix listener whose backlog
  // is full, which the kernel does not let us wait for).
  static Result<Socket> begin_connect(const SocketAddress& address, const ConnectOptions& options);
  // Two connected Unix sockets, for a parent and its child.
  struct Pair;
  static Result<Pair> pair(SocketKind kind);

  // Waits for a client. Errors: kDeadlineExceeded, kResourceExhausted (out of
  // descriptors: the client stays in the backlog), kOsError.
  Result<Socket> accept(Deadline deadline) const;
  // A client, or an invalid Socket if there is none now. Errors as above.
  Result<Socket> try_accept() const;

  // Sends / receives what fits now. Errors: kConnectionLost, kOsError.
  Result<std::size_t> try_send(std::span<const std::byte> bytes) const;
  Result<std::size_t> try_send(std::span<const iovec> parts) const;
  Result<std::size_t> try_receive(std::span<std::byte> buffer) const;
  Result<std::size_t> try_receive(std::span<const iovec> parts) const;

  // Sends / fills all of it. After an error an unknown part was transferred:
  // close the socket. Errors: kDeadlineExceeded, kConnectionLost, kOsError.
  Result<void> send_all(std::span<const std::byte> bytes, Deadline deadline) const;
  Result<void> receive_all(std::span<std::byte> buffer, Deadline deadline) const;

  // Tells the peer that nothing more comes; receiving goes on.
  Result<void> shut_down_sending() const;
  // Ends both directions now; threads that wait on this socket return.
  void shut_down() const;

  // TCP only (kUnsupported or kOsError on others).
  Result<void> set_no_delay(bool on) const;
  // Breaks the connection when sent bytes stay unacknowledged for so long.
  Result<void> set_user_timeout(std::chrono::milliseconds timeout) const;
  Result<void> set_keep_alive(const KeepAlive& options) const;

  // Kernel buffers, in bytes; the kernel may clamp. Errors: kOsError.
  Result<void> set_send_buffer(int bytes) const;
  Result<void> set_receive_buffer(int bytes) const;

  Result<SocketAddress> local_address() const;
  // Errors: kOsError (not connected).
  Result<SocketAddress> peer_address() const;
  // Unix only. Errors: kOsError.
  Result<PeerCredentials> peer_credentials() const;

  const Fd& fd() const { return fd_; }
  bool valid() const { return fd_.valid(); }

 private:
  explicit Socket(Fd fd) : fd_(std::move(fd)) {}
  Result<void> set_option(int level, int name, int value, const char* call) const;
  Fd fd_;
};

struct Socket::Pair {
  Socket first;
  Socket second;
};

}  // namespace yonder::os
