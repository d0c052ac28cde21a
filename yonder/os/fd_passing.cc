#include "yonder/os/fd_passing.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "yonder/os/wait.h"

namespace yonder::os {
namespace {

// Room for one header with the most descriptors there can be: with less, the
// kernel would cut surplus descriptors off and we could not tell a peer that
// sends too many from our own table being full.
using ControlBuffer = std::array<std::byte, CMSG_SPACE(kMaxPassedFds * sizeof(int))>;

struct SendState {
  iovec part;
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
};

void prepare(SendState& state, std::span<const std::byte> bytes, std::span<const int> fds) {
  state.part = {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  state.message.msg_iov = &state.part;
  state.message.msg_iovlen = 1;
  if (fds.empty()) return;
  state.message.msg_control = state.control.data();
  state.message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&state.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
}

Error send_error() {
  if (errno == ETOOMANYREFS) return {ErrorCode::kResourceExhausted, "descriptors in flight", ETOOMANYREFS};
  return Error::from_errno("sendmsg(SCM_RIGHTS)");
}

// Owns whatever descriptors came, so that every way out closes them.
// False if there was control data that we did not ask for.
bool take_descriptors(msghdr& message, std::vector<Fd>& fds) {
  bool understood = true;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      understood = false;
      continue;
    }
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int raw = -1;
      std::memcpy(&raw, CMSG_DATA(header) + i * sizeof(int), sizeof raw);
      fds.emplace_back(raw);
    }
  }
  return understood;
}

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Nothing if no message is there now.
Result<std::optional<ReceivedMessage>> receive_now(const Socket& socket, std::span<std::byte> buffer,
                                                   std::size_t max_fds) {
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  alignas(cmsghdr) ControlBuffer control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t count = ::recvmsg(socket.fd().get(), &message, MSG_CMSG_CLOEXEC);
  if (count < 0 && try_again()) return std::nullopt;
  if (count < 0) return fail_errno("recvmsg(SCM_RIGHTS)");
  ReceivedMessage received{.bytes = static_cast<std::size_t>(count), .fds = {}};
  const bool understood = take_descriptors(message, received.fds);
  if (count == 0) return fail(ErrorCode::kConnectionLost, "the peer closed the connection");
  if (!understood || received.fds.size() > max_fds)
    return fail(ErrorCode::kMalformedFrame, "descriptors from a peer",
                static_cast<std::int64_t>(received.fds.size()));
  // The buffer holds every legal count, so a cut means that our table is full.
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    return fail(ErrorCode::kResourceExhausted, "take descriptors from a peer");
  if ((message.msg_flags & MSG_TRUNC) != 0)
    return fail(ErrorCode::kMessageTooLong, "message from a peer", count);
  return received;
}

}  // namespace

Result<void> send_with_fds(const Socket& socket, std::span<const std::byte> bytes, std::span<const int> fds,
                           Deadline deadline) {
  if (bytes.empty() || fds.size() > kMaxPassedFds)
    return fail(ErrorCode::kInvalidArgument, "send descriptors", static_cast<std::int64_t>(fds.size()));
  deadline = fix_deadline(deadline);
  SendState state;
  prepare(state, bytes, fds);
  for (;;) {
    const ssize_t count = ::sendmsg(socket.fd().get(), &state.message, MSG_NOSIGNAL);
    if (count >= 0) return socket.send_all(bytes.subspan(static_cast<std::size_t>(count)), deadline);
    if (!try_again()) return std::unexpected(send_error());
    YONDER_TRY_VOID(wait_ready(socket.fd().get(), Ready::kWritable, deadline));
  }
}

Result<ReceivedMessage> receive_with_fds(const Socket& socket, std::span<std::byte> buffer,
                                         std::size_t max_fds, Deadline deadline) {
  deadline = fix_deadline(deadline);
  for (;;) {
    YONDER_TRY(received, receive_now(socket, buffer, max_fds));
    if (received) return std::move(*received);
    YONDER_TRY_VOID(wait_ready(socket.fd().get(), Ready::kReadable, deadline));
  }
}

}  // namespace yonder::os
