#pragma once
// Sending open descriptors to another process over a Unix socket.
//
// One message carries at least one byte and at most kMaxPassedFds descriptors.
// The receiver takes only as many as it expects: a peer that sends more, or
// whose descriptors were cut off by our limits, gets its message refused and
// every descriptor that arrived is closed, so that a hostile peer cannot fill
// our descriptor table.
//
// Concurrency: as Socket: one sender and one receiver at a time. Use sockets of
// kind kSeqpacket, where a message stays one message; on a stream the
// descriptors come with the first byte of theirs.

#include <cstddef>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/fd.h"
#include "yonder/os/socket.h"

namespace yonder::os {

// The kernel's own limit (SCM_MAX_FD) is 253.
inline constexpr std::size_t kMaxPassedFds = 253;

// Sends all of `bytes` with `fds`; the caller keeps its descriptors. On a stream
// socket the descriptors leave with the first part of the bytes.
// Errors: kInvalidArgument (no bytes, too many descriptors), kDeadlineExceeded,
// kConnectionLost, kResourceExhausted (too many descriptors in flight), kOsError.
Result<void> send_with_fds(const Socket& socket, std::span<const std::byte> bytes, std::span<const int> fds,
                           Deadline deadline);

struct ReceivedMessage {
  std::size_t bytes;    // How many of the buffer's front were filled.
  std::vector<Fd> fds;  // Close-on-exec.
};
// Waits for one message. Errors: kDeadlineExceeded; kConnectionLost;
// kMessageTooLong (the message is longer than `buffer`); kMalformedFrame (more
// than `max_fds` descriptors, or control data of another kind);
// kResourceExhausted (our descriptor table is full, so some could not be taken).
// In each of these cases no descriptor is left open.
Result<ReceivedMessage> receive_with_fds(const Socket& socket, std::span<std::byte> buffer,
                                         std::size_t max_fds, Deadline deadline);

}  // namespace yonder::os
