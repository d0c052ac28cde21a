#include "yonder/fabric/shm/internal/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "yonder/base/secure_random.h"
#include "yonder/fabric/shm/internal/received_file.h"

namespace yonder::fabric::shm {
namespace {

// A deadline that makes a call a poll.
constexpr Deadline kNow = Deadline::at(Instant::from_ns(1));

std::uint32_t flags_of(const Self& self, const End& end) {
  return (self.fence.registered() ? kMembarrier : 0u) | (end.foreign ? kForeign : 0u);
}

Hello hello_of(const Self& self, const End& end) {
  return {.identity = end.identity, .process = self.process};
}

std::vector<int> fds_of(const Self& self, const End& end) {
  std::vector<int> fds = {self.states.fd().get(), self.service_board.fd().get()};
  if (end.queue != nullptr) {
    fds.push_back(end.queue->board_fd().get());
    fds.push_back(end.queue->mailbox()->event().fd().get());
  }
  return fds;
}

// Whether the other end's addresses are valid here: it says so, the kernel says
// so, and nobody asked to pretend otherwise. Without the kernel's word a peer
// could make us copy from and to addresses of its choice.
bool is_same_process(const os::Socket& socket, const Self& self, const Hello& peer, std::uint32_t flags) {
  if ((flags & kForeign) != 0 || peer.process != self.process) return false;
  const auto credentials = socket.peer_credentials();
  return credentials && credentials->pid == ::getpid();
}

// The files that both sides send: state, service board, and of a queue its board
// and event.
Result<void> take_files(LinkParts& parts, std::span<os::Fd> fds) {
  const bool has_queue = parts.peer.queue_line != 0;
  if (fds.size() != (has_queue ? 4u : 2u)) return fail(ErrorCode::kMalformedFrame, "handshake: descriptors");
  YONDER_TRY(state, StateView::map(std::move(fds[0])));
  parts.peer_state = std::move(state);
  const ReceivedFile board{.bytes = kBoardBytes, .protection = os::Protection::kReadWrite};
  YONDER_TRY(service, map_received(std::move(fds[1]), board));
  parts.peer_service = std::move(service);
  if (!has_queue) return {};
  YONDER_TRY(queue, map_received(std::move(fds[2]), board));
  parts.peer_queue = std::move(queue);
  parts.peer_event = os::EventFd::adopt(std::move(fds[3]));
  // Ringing must never block us, whatever was sent instead of an eventfd.
  return parts.peer_event.fd().set_nonblocking(true);
}

}  // namespace

Result<Received> receive_packet(const os::Socket& socket, std::span<std::byte> buffer) {
  auto message = os::receive_with_fds(socket, buffer, kMaxPacketFds, kNow);
  if (message) return Received{message->bytes, std::move(message->fds)};
  if (message.error() == ErrorCode::kDeadlineExceeded) return Received{};
  return std::unexpected(message.error());
}

Result<void> send_packet(const os::Socket& socket, const Packet& packet, std::span<const int> fds) {
  auto sent = os::send_with_fds(socket, packet.bytes(), fds, kNow);
  if (!sent && sent.error() == ErrorCode::kDeadlineExceeded)
    return fail(ErrorCode::kPeerTooSlow, "send control packet");
  return sent;
}

Result<void> say_hello(const os::Socket& socket, const Self& self, const End& end) {
  const HelloPacket packet{.hello = hello_of(self, end),
                           .flags = flags_of(self, end),
                           .max_message = end.options.max_message,
                           .receive_depth = std::bit_ceil(std::max(end.options.receive_depth, 1u)),
                           .contact = end.contact};
  return send_packet(socket, encode(packet), fds_of(self, end));
}

void say_refusal(const os::Socket& socket, ErrorCode status) {
  // If it cannot be told, the closed socket tells enough.
  (void)send_packet(socket, encode(WelcomePacket{.status = status}), {});
}

Result<LinkParts> say_welcome(os::Socket& socket, const Self& self, const End& end, const HelloPacket& hello,
                              std::vector<os::Fd> fds, std::span<const std::byte> greeting) {
  const Hello ours = hello_of(self, end);
  YONDER_TRY(agreement, agree(ours, hello.hello));
  LinkParts parts{.side = Side::kTarget, .peer = hello.contact, .ours = end.contact, .agreement = agreement};
  parts.max_message = std::min(hello.max_message, end.options.max_message);
  // Lane 0 is the initiator's: its messages land in our receives.
  parts.shape.cells = LinkShape::cells_for(parts.max_message);
  parts.shape.receive_depth[0] = std::bit_ceil(std::max(end.options.receive_depth, 1u));
  parts.shape.receive_depth[1] = hello.receive_depth;
  parts.fence = !self.fence.registered() || (hello.flags & kMembarrier) == 0;
  parts.same_process = is_same_process(socket, self, hello.hello, hello.flags | flags_of(self, end));
  YONDER_TRY_VOID(take_files(parts, fds));
  YONDER_TRY(connection, secure_random_u64());
  parts.connection = connection;
  YONDER_TRY(file, create_link_file(parts.shape));
  parts.memory = std::move(file.mapping);
  const WelcomePacket packet{.hello = ours,
                             .flags = flags_of(self, end),
                             .max_message = parts.max_message,
                             .connection = parts.connection,
                             .shape = parts.shape,
                             .contact = end.contact,
                             .greeting = {greeting.begin(), greeting.end()}};
  std::vector<int> sent = fds_of(self, end);
  sent.insert(sent.begin(), file.fd.get());
  YONDER_TRY_VOID(send_packet(socket, encode(packet), sent));
  parts.socket = std::move(socket);
  return parts;
}

Result<LinkParts> take_welcome(os::Socket& socket, const Self& self, const End& end,
                               std::span<const std::byte> bytes, std::vector<os::Fd> fds) {
  YONDER_TRY(packet, decode_welcome(bytes));
  if (packet.status != ErrorCode::kOk) {
    const bool known = is_known(packet.status);
    return fail(known ? packet.status : ErrorCode::kConnectionRefused, "connect: the target refused");
  }
  YONDER_TRY(agreement, agree(hello_of(self, end), packet.hello));
  LinkParts parts{
      .side = Side::kInitiator, .shape = packet.shape, .peer = packet.contact, .ours = end.contact};
  parts.max_message = packet.max_message;
  parts.connection = packet.connection;
  parts.agreement = agreement;
  parts.greeting = std::move(packet.greeting);
  parts.fence = !self.fence.registered() || (packet.flags & kMembarrier) == 0;
  parts.same_process = is_same_process(socket, self, packet.hello, packet.flags | flags_of(self, end));
  if (fds.empty()) return fail(ErrorCode::kMalformedFrame, "connect: no link file");
  const ReceivedFile file{.bytes = parts.shape.bytes(), .protection = os::Protection::kReadWrite};
  YONDER_TRY(memory, map_received(std::move(fds[0]), file));
  parts.memory = std::move(memory);
  YONDER_TRY_VOID(take_files(parts, std::span(fds).subspan(1)));
  parts.socket = std::move(socket);
  return parts;
}

}  // namespace yonder::fabric::shm
