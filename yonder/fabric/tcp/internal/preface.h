#pragma once
// The first bytes of a stream: who we are, and which stream this is.
//
// The side that opened the TCP connection speaks first. A passive listener needs
// one stream. Otherwise the answer to the first stream carries a ticket, with
// which the same peer opens a second stream for requests in the other direction;
// the ticket is random, so that nobody can attach to another's connection.
//
// Opener, 56 bytes:
//   byte  0            40     44     48        56
//        | Hello      | role | zero | ticket  |
// Listener, 56 bytes, then the greeting:
//   byte  0            40       42               44      48        56
//        | Hello      | status | greeting bytes | flags | ticket  | greeting … |
//
// Concurrency: values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/handshake.h"

namespace yonder::fabric::tcp {

// Named after the direction of requests, seen from the opener.
enum class StreamRole : std::uint32_t {
  kForward = 0,   // The opener is the initiator.
  kBackward = 1,  // The opener is the target; `ticket` says of which connection.
};

struct OpenerPreface {
  static constexpr std::size_t kBytes = 56;
  using Encoded = std::array<std::byte, kBytes>;

  Hello hello;
  StreamRole role = StreamRole::kForward;
  std::uint64_t ticket = 0;

  Encoded encode() const;
  // kMalformedFrame. Requires kBytes bytes (checked).
  static Result<OpenerPreface> decode(std::span<const std::byte> bytes);
};

struct ListenerPreface {
  static constexpr std::size_t kBytes = 56;
  using Encoded = std::array<std::byte, kBytes>;
  static constexpr std::uint32_t kWantsBackward = 1;

  Hello hello;
  ErrorCode status = ErrorCode::kOk;  // Why the listener refuses.
  std::uint16_t greeting_bytes = 0;
  bool wants_backward = false;  // A second stream must follow.
  std::uint64_t ticket = 0;

  Encoded encode() const;
  // kMalformedFrame, also for a greeting that is too long.
  static Result<ListenerPreface> decode(std::span<const std::byte> bytes);
};

// Whether `bytes`, the first of a stream, can still become a Hello. Lets us turn
// away a stranger at its first byte instead of at the deadline.
bool may_be_hello(std::span<const std::byte> bytes);
// Whether they look like TLS: for a message that says what is wrong.
bool looks_like_tls(std::span<const std::byte> bytes);

}  // namespace yonder::fabric::tcp
