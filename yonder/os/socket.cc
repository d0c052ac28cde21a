#include "yonder/os/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "yonder/os/wait.h"

namespace yonder::os {
namespace {

int type_of(SocketKind kind) {
  return (kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC | SOCK_NONBLOCK;
}

Result<Fd> open_socket(const SocketAddress& address, SocketKind kind) {
  Fd fd(::socket(address.family(), type_of(kind), 0));
  if (!fd.valid()) return fail_errno("socket");
  return fd;
}

Result<void> enable(const Fd& fd, int name, const char* call) {
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, name, &on, sizeof on) != 0) return fail_errno(call);
  return {};
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

// An errno that says that this connection is over, whatever its cause: the
// caller's answer is the same for all of them.
bool is_lost(int error_number) {
  switch (error_number) {
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ECONNABORTED:
    case ENOTCONN:
      return true;
    default:
      return false;
  }
}

Result<std::size_t> transfer_error(const char* call) {
  if (would_block() || errno == EINTR) return std::size_t{0};
  if (is_lost(errno)) return fail(ErrorCode::kConnectionLost, call, errno);
  return fail_errno(call);
}

// Waits for a connection under way and takes its outcome.
Result<void> finish_connect(const Fd& fd, Deadline deadline) {
  YONDER_TRY_VOID(wait_ready(fd.get(), Ready::kWritable, deadline));
  int error_number = 0;
  socklen_t length = sizeof error_number;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &length) != 0)
    return fail_errno("getsockopt");
  if (error_number != 0) return std::unexpected(Error::from_errno("connect", error_number));
  return {};
}

// A Unix connect does not go on in the background: when the listener's backlog
// is full the kernel says EAGAIN and there is nothing to wait for, so we ask
// again every millisecond.
Result<void> connect_unix(const Fd& fd, const SocketAddress& address, Deadline deadline) {
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
  while (::connect(fd.get(), address.raw(), address.length()) != 0) {
    if (errno != EINTR && !would_block()) return fail_errno("connect");
    const std::optional<timespec> left = time_left(deadline);
    if (left && left->tv_sec == 0 && left->tv_nsec == 0) return fail(ErrorCode::kDeadlineExceeded, "connect");
    ::nanosleep(&kPause, nullptr);
  }
  return {};
}

template <typename Name>  // getsockname or getpeername
Result<SocketAddress> address_of(const Fd& fd, Name name, const char* call) {
  sockaddr_storage raw{};
  socklen_t length = sizeof raw;
  if (name(fd.get(), reinterpret_cast<sockaddr*>(&raw), &length) != 0) return fail_errno(call);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&raw), length);
}

}  // namespace

Result<Socket> Socket::adopt(Fd fd) {
  YONDER_TRY_VOID(fd.set_nonblocking(true));
  return Socket(std::move(fd));
}

Result<Socket> Socket::listen(const SocketAddress& address, const ListenOptions& options) {
  YONDER_TRY(fd, open_socket(address, options.kind));
  if (!address.is_unix()) YONDER_TRY_VOID(enable(fd, SO_REUSEADDR, "setsockopt(SO_REUSEADDR)"));
  if (options.reuse_port) YONDER_TRY_VOID(enable(fd, SO_REUSEPORT, "setsockopt(SO_REUSEPORT)"));
  if (::bind(fd.get(), address.raw(), address.length()) != 0) return fail_errno("bind");
  if (::listen(fd.get(), options.backlog) != 0) return fail_errno("listen");
  return Socket(std::move(fd));
}

Result<Socket> Socket::connect(const SocketAddress& address, const ConnectOptions& options,
                               Deadline deadline) {
  deadline = fix_deadline(deadline);
  YONDER_TRY(fd, open_socket(address, options.kind));
  if (address.is_unix()) {
    YONDER_TRY_VOID(connect_unix(fd, address, deadline));
  } else if (::connect(fd.get(), address.raw(), address.length()) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return fail_errno("connect");
    YONDER_TRY_VOID(finish_connect(fd, deadline));
  }
  return Socket(std::move(fd));
}

Result<Socket> Socket::begin_connect(const SocketAddress& address, const ConnectOptions& options) {
  YONDER_TRY(fd, open_socket(address, options.kind));
  if (::connect(fd.get(), address.raw(), address.length()) == 0) return Socket(std::move(fd));
  if (address.is_unix() && would_block()) return fail(ErrorCode::kOverloaded, "connect");
  if (errno != EINPROGRESS && errno != EINTR) return fail_errno("connect");
  return Socket(std::move(fd));
}

Result<Socket::Pair> Socket::pair(SocketKind kind) {
  int raw[2] = {-1, -1};
  if (::socketpair(AF_UNIX, type_of(kind), 0, raw) != 0) return fail_errno("socketpair");
  return Pair{.first = Socket(Fd(raw[0])), .second = Socket(Fd(raw[1]))};
}

Result<Socket> Socket::try_accept() const {
  Fd client(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (client.valid()) return Socket(std::move(client));
  // A client that gave up while it waited is as if it had never come.
  if (would_block() || errno == EINTR || errno == ECONNABORTED) return Socket();
  return fail_errno("accept4");
}

Result<Socket> Socket::accept(Deadline deadline) const {
  deadline = fix_deadline(deadline);
  for (;;) {
    YONDER_TRY(client, try_accept());
    if (client.valid()) return client;
    YONDER_TRY_VOID(wait_ready(fd_.get(), Ready::kReadable, deadline));
  }
}

Result<std::size_t> Socket::try_send(std::span<const std::byte> bytes) const {
  const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count < 0) return transfer_error("send");
  return static_cast<std::size_t>(count);
}

Result<std::size_t> Socket::try_send(std::span<const iovec> parts) const {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // sendmsg does not change it.
  message.msg_iovlen = parts.size();
  const ssize_t count = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  if (count < 0) return transfer_error("sendmsg");
  return static_cast<std::size_t>(count);
}

Result<std::size_t> Socket::try_receive(std::span<std::byte> buffer) const {
  const iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  return try_receive(std::span(&part, 1));
}

Result<std::size_t> Socket::try_receive(std::span<const iovec> parts) const {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // recvmsg does not change it.
  message.msg_iovlen = parts.size();
  const ssize_t count = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  if (count < 0) return transfer_error("recvmsg");
  if (count == 0) return fail(ErrorCode::kConnectionLost, "the peer closed the connection");
  return static_cast<std::size_t>(count);
}

Result<void> Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) const {
  deadline = fix_deadline(deadline);
  while (!bytes.empty()) {
    YONDER_TRY(count, try_send(bytes));
    bytes = bytes.subspan(count);
    if (count == 0) YONDER_TRY_VOID(wait_ready(fd_.get(), Ready::kWritable, deadline));
  }
  return {};
}

Result<void> Socket::receive_all(std::span<std::byte> buffer, Deadline deadline) const {
  deadline = fix_deadline(deadline);
  while (!buffer.empty()) {
    YONDER_TRY(count, try_receive(buffer));
    buffer = buffer.subspan(count);
    if (count == 0) YONDER_TRY_VOID(wait_ready(fd_.get(), Ready::kReadable, deadline));
  }
  return {};
}

Result<void> Socket::shut_down_sending() const {
  if (::shutdown(fd_.get(), SHUT_WR) != 0) return fail_errno("shutdown");
  return {};
}

void Socket::shut_down() const { ::shutdown(fd_.get(), SHUT_RDWR); }

Result<void> Socket::set_option(int level, int name, int value, const char* call) const {
  if (::setsockopt(fd_.get(), level, name, &value, sizeof value) != 0) return fail_errno(call);
  return {};
}

Result<void> Socket::set_no_delay(bool on) const {
  return set_option(IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0, "setsockopt(TCP_NODELAY)");
}

Result<void> Socket::set_user_timeout(std::chrono::milliseconds timeout) const {
  return set_option(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout.count()),
                    "setsockopt(TCP_USER_TIMEOUT)");
}

Result<void> Socket::set_keep_alive(const KeepAlive& options) const {
  const int idle = static_cast<int>(options.idle.count());
  const int interval = static_cast<int>(options.interval.count());
  YONDER_TRY_VOID(set_option(IPPROTO_TCP, TCP_KEEPIDLE, idle, "setsockopt(TCP_KEEPIDLE)"));
  YONDER_TRY_VOID(set_option(IPPROTO_TCP, TCP_KEEPINTVL, interval, "setsockopt(TCP_KEEPINTVL)"));
  YONDER_TRY_VOID(set_option(IPPROTO_TCP, TCP_KEEPCNT, options.probes, "setsockopt(TCP_KEEPCNT)"));
  return set_option(SOL_SOCKET, SO_KEEPALIVE, 1, "setsockopt(SO_KEEPALIVE)");
}

Result<void> Socket::set_send_buffer(int bytes) const {
  return set_option(SOL_SOCKET, SO_SNDBUF, bytes, "setsockopt(SO_SNDBUF)");
}

Result<void> Socket::set_receive_buffer(int bytes) const {
  return set_option(SOL_SOCKET, SO_RCVBUF, bytes, "setsockopt(SO_RCVBUF)");
}

Result<SocketAddress> Socket::local_address() const { return address_of(fd_, ::getsockname, "getsockname"); }
Result<SocketAddress> Socket::peer_address() const { return address_of(fd_, ::getpeername, "getpeername"); }

Result<PeerCredentials> Socket::peer_credentials() const {
  ucred raw{};
  socklen_t length = sizeof raw;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &raw, &length) != 0)
    return fail_errno("getsockopt(SO_PEERCRED)");
  return PeerCredentials{.pid = raw.pid, .uid = raw.uid, .gid = raw.gid};
}

}  // namespace yonder::os
