#pragma once
// What two fabrics tell each other inside the connection manager's messages.
//
// The connection manager carries private bytes with each step: 56 in a request,
// 196 in a reply, 148 in a rejection. That is all the talking this provider
// needs, so a target's application never has to help.
//
// A request either opens a connection or resumes one whose queue pairs broke:
//
//   byte  0                     40          48         56
//        | Hello               | replaces  | zero     |       open
//
//   byte  0       4    5   8      16    24       32       40      48         56
//        | magic | op | 0 | seat | key | offset | length | epoch | received | resume
//
//   byte  0       40     48            56       58       60
//        | Hello | seat | current key | reason | length | greeting …         reply
//
//   byte  0       4      8
//        | magic | code |                                                     rejection
//
// `seat` names the accepting end of a connection, `replaces` the seat of an
// earlier connection that its initiator has given up, `received` counts the
// messages the initiator has taken since it connected, and a resume asks why `op` on (key, offset, length)
// was refused; `reason` answers. Reason kOk means that the region was bound to other memory, and that the NIC
// now knows it by `current key`.
//
// Concurrency: values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/handshake.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::verbs {

inline constexpr std::size_t kRequestBytes = 56;
inline constexpr std::size_t kReplyHeadBytes = 60;
inline constexpr std::size_t kMaxReplyBytes = kReplyHeadBytes + kMaxGreetingBytes;
inline constexpr std::size_t kRejectionBytes = 8;
static_assert(kMaxReplyBytes <= 196, "the connection manager carries no more in a reply");

using SeatId = std::uint64_t;  // Random; 0 is none.

struct OpenRequest {
  Hello hello;
  SeatId replaces = 0;
};

// The access whose refusal is to be explained; op 0: none.
struct Access {
  Op op = Op{0};
  RemoteAddress remote;
  std::uint64_t length = 0;
};

struct ResumeRequest {
  SeatId seat = 0;
  Access refused;
  Epoch epoch{0};
  std::uint64_t received = 0;
};

using Request = std::variant<OpenRequest, ResumeRequest>;

struct Reply {
  Hello hello;
  SeatId seat = 0;
  RegionKey current_key;
  ErrorCode reason = ErrorCode::kOk;
  std::vector<std::byte> greeting;
};

std::array<std::byte, kRequestBytes> encode(const OpenRequest& request);
std::array<std::byte, kRequestBytes> encode(const ResumeRequest& request);
// At most kMaxReplyBytes; requires a greeting within kMaxGreetingBytes (checked).
std::vector<std::byte> encode(const Reply& reply);
std::array<std::byte, kRejectionBytes> encode_rejection(ErrorCode code);

// The bytes come from a peer: kMalformedFrame if they are none of ours.
Result<Request> decode_request(std::span<const std::byte> bytes);
Result<Reply> decode_reply(std::span<const std::byte> bytes);
// kConnectionRefused where the peer gave no reason of ours (nobody listens).
ErrorCode decode_rejection(std::span<const std::byte> bytes);

}  // namespace yonder::fabric::verbs
