#pragma once
// The handshake of a connection: from a Unix socket to the parts of a Link.
//
// Three steps, none of which blocks: the initiator says Hello, the target checks
// it, makes the link file and says Welcome, the initiator maps what it got. What
// arrives is checked here; what follows may trust the shapes and indices.
//
// Concurrency: the service thread (connect() says Hello from its caller's).
// Lifetime: nothing is kept.

#include <memory>
#include <span>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/shm/internal/board.h"
#include "yonder/fabric/shm/internal/completion_queue.h"
#include "yonder/fabric/shm/internal/control.h"
#include "yonder/fabric/shm/internal/link.h"
#include "yonder/fabric/shm/internal/receive_queue.h"
#include "yonder/os/fd_passing.h"

namespace yonder::fabric::shm {

// What a fabric is for all its connections.
struct Self {
  StateFile& states;
  const RareFence& fence;
  Board& service_board;
  std::uint64_t process = 0;
};

// What one end of one connection brings along.
struct End {
  EndpointOptions options;
  Identity identity;
  ShmCompletionQueue* queue = nullptr;  // null: passive
  Contact contact;
  bool foreign = false;
};

// A packet and its descriptors, or nothing if none is there yet.
struct Received {
  std::size_t bytes = 0;
  std::vector<os::Fd> fds;
};
Result<Received> receive_packet(const os::Socket& socket, std::span<std::byte> buffer);
// kPeerTooSlow if the socket is full.
Result<void> send_packet(const os::Socket& socket, const Packet& packet, std::span<const int> fds);

Result<void> say_hello(const os::Socket& socket, const Self& self, const End& end);

// Target: answers a Hello and makes the parts of the link; the socket moves into
// them. Every refusal is said to the initiator, if it still listens.
Result<LinkParts> say_welcome(os::Socket& socket, const Self& self, const End& end, const HelloPacket& hello,
                              std::vector<os::Fd> fds, std::span<const std::byte> greeting);
void say_refusal(const os::Socket& socket, ErrorCode status);

// Initiator: the parts of the link from the target's Welcome.
Result<LinkParts> take_welcome(os::Socket& socket, const Self& self, const End& end,
                               std::span<const std::byte> packet, std::vector<os::Fd> fds);

}  // namespace yonder::fabric::shm
