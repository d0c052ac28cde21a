#pragma once
// The bytes of a request, of a response, and of the greeting that starts them.
//
// Every message is one fabric send: a header and the payload right behind it. The
// headers are small because on `shm` a message of up to 48 bytes moves in one
// cache line: a request with 16 payload bytes does, and a response with 24.
// Tenant and epoch are in every request, not only in the hand-shake, because one
// connection may carry several tenants' work and outlives many epochs.
//
//   request (32 bytes, little endian)
//   byte  0     1          2        4         7           8            16       20          24      32
//        | ver | features | method | payload | answer    | request id | tenant | budget µs | epoch |
//        |     |          |        | bytes   | log2      |            |        |           |       |
//
//   response (24 bytes)
//   byte  0            8       16       18        20        23    24
//        | request id | epoch | status | credits | payload | ver |
//
//   greeting (24 bytes; the application's own bytes follow)
//   byte  0       4         5         6         8             12             16         24
//        | magic | min ver | max ver | credits | max request | max response | features |
//
// `ver` of a request and the request id keep their places in every version, so
// that a server can refuse what it cannot read.
//
// Concurrency: values.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "yonder/base/error.h"
#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::rpc {

static_assert(std::endian::native == std::endian::little, "headers are copied as they lie in memory");

struct MethodIdTag;
using MethodId = StrongId<MethodIdTag, std::uint16_t>;

inline constexpr std::uint8_t kVersion = 1;
// Features this version can use. A request names those it relies on; a server
// refuses one that relies on a bit it does not know.
inline constexpr std::uint8_t kKnownFeatures = 0;
// 24 bits say how long a payload is.
inline constexpr std::uint32_t kMaxPayloadBytes = (1u << 24) - 1;
// In RequestHeader::budget_us: the client waits as long as the connection lives.
inline constexpr std::uint32_t kNoBudget = std::numeric_limits<std::uint32_t>::max();
// The request id of a goodbye: the server is stopping and closes the connection.
inline constexpr std::uint64_t kGoodbyeId = 0;

struct RequestHeader {
  std::uint8_t version = kVersion;
  std::uint8_t features = 0;
  std::uint16_t method = 0;
  std::uint32_t sizes = 0;  // payload bytes | answer log2 << 24
  std::uint64_t request_id = 0;
  std::uint32_t tenant = 0;
  std::uint32_t budget_us = kNoBudget;  // time left when it was sent
  std::uint64_t epoch = 0;

  std::uint32_t payload_bytes() const { return sizes & kMaxPayloadBytes; }
  // The client takes no longer payload than this in the answer.
  std::uint32_t answer_limit() const {
    return sizes >> 24 >= 24 ? kMaxPayloadBytes : std::uint32_t{1} << (sizes >> 24);
  }
  static constexpr std::uint32_t pack_sizes(std::uint32_t payload_bytes, std::uint32_t answer_log2) {
    return payload_bytes | answer_log2 << 24;
  }
};

struct ResponseHeader {
  std::uint64_t request_id = 0;
  std::uint64_t epoch = 0;    // the server's: a client that is behind learns it here
  std::uint16_t status = 0;   // an ErrorCode; kOk for a result
  std::uint16_t credits = 0;  // requests that the client may send from now on, in addition
  std::uint32_t sizes = 0;    // payload bytes | version << 24

  std::uint32_t payload_bytes() const { return sizes & kMaxPayloadBytes; }
  std::uint8_t version() const { return static_cast<std::uint8_t>(sizes >> 24); }
  static constexpr std::uint32_t pack_sizes(std::uint32_t payload_bytes) {
    return payload_bytes | std::uint32_t{kVersion} << 24;
  }
};

struct Greeting {
  static constexpr std::uint32_t kMagic = 0x43505259;  // "YRPC" in memory order

  std::uint32_t magic = kMagic;
  std::uint8_t min_version = kVersion;
  std::uint8_t max_version = kVersion;
  std::uint16_t credits = 0;       // requests a new connection may have outstanding
  std::uint32_t max_request = 0;   // payload bytes
  std::uint32_t max_response = 0;  // payload bytes
  std::uint64_t features = kKnownFeatures;
};

inline constexpr std::size_t kRequestHeaderBytes = 32;
inline constexpr std::size_t kResponseHeaderBytes = 24;
inline constexpr std::size_t kGreetingBytes = 24;

static_assert(sizeof(RequestHeader) == kRequestHeaderBytes && offsetof(RequestHeader, features) == 1 &&
              offsetof(RequestHeader, method) == 2 && offsetof(RequestHeader, sizes) == 4 &&
              offsetof(RequestHeader, request_id) == 8 && offsetof(RequestHeader, tenant) == 16 &&
              offsetof(RequestHeader, budget_us) == 20 && offsetof(RequestHeader, epoch) == 24);
static_assert(sizeof(ResponseHeader) == kResponseHeaderBytes && offsetof(ResponseHeader, epoch) == 8 &&
              offsetof(ResponseHeader, status) == 16 && offsetof(ResponseHeader, credits) == 18 &&
              offsetof(ResponseHeader, sizes) == 20);
static_assert(sizeof(Greeting) == kGreetingBytes && offsetof(Greeting, min_version) == 4 &&
              offsetof(Greeting, credits) == 6 && offsetof(Greeting, max_request) == 8 &&
              offsetof(Greeting, max_response) == 12 && offsetof(Greeting, features) == 16);
static_assert(std::has_unique_object_representations_v<RequestHeader> &&
                  std::has_unique_object_representations_v<ResponseHeader> &&
                  std::has_unique_object_representations_v<Greeting>,
              "no padding: every byte on the wire is one that was meant");

// Writes words in front of a payload. Requires room. Whole words from registers,
// because a struct that is filled field by field and then copied waits for its own
// small stores.
template <std::size_t kWords>
void put_words(const std::uint64_t (&words)[kWords], std::byte* out) {
  for (std::size_t i = 0; i < kWords; ++i) std::memcpy(out + 8 * i, &words[i], 8);
}
inline void put_header(const RequestHeader& header, std::byte* out) {
  put_words({header.version | std::uint64_t{header.features} << 8 | std::uint64_t{header.method} << 16 |
                 std::uint64_t{header.sizes} << 32,
             header.request_id, header.tenant | std::uint64_t{header.budget_us} << 32, header.epoch},
            out);
}
inline void put_header(const ResponseHeader& header, std::byte* out) {
  put_words({header.request_id, header.epoch,
             header.status | std::uint64_t{header.credits} << 16 | std::uint64_t{header.sizes} << 32},
            out);
}
inline void put_header(const Greeting& greeting, std::byte* out) {
  std::memcpy(out, &greeting, sizeof greeting);
}

// The header of a received message.
//   kMalformedFrame    shorter than a header, or the payload's length is not what
//                      arrived: the stream of messages cannot be trusted any more
//   kProtocolMismatch  a version or feature we do not know; `request_id` is good,
//                      so a server can say so
// Checked in this order, and `header` is filled unless the message is too short.
inline ErrorCode read_request(std::span<const std::byte> message, RequestHeader& header) {
  if (message.size() < sizeof header) return ErrorCode::kMalformedFrame;
  std::memcpy(&header, message.data(), sizeof header);
  if (header.version != kVersion || (header.features & ~kKnownFeatures) != 0)
    return ErrorCode::kProtocolMismatch;
  if (header.payload_bytes() != message.size() - sizeof header) return ErrorCode::kMalformedFrame;
  return ErrorCode::kOk;
}

inline ErrorCode read_response(std::span<const std::byte> message, ResponseHeader& header) {
  if (message.size() < sizeof header) return ErrorCode::kMalformedFrame;
  std::memcpy(&header, message.data(), sizeof header);
  if (header.version() != kVersion) return ErrorCode::kProtocolMismatch;
  if (header.payload_bytes() != message.size() - sizeof header) return ErrorCode::kMalformedFrame;
  return ErrorCode::kOk;
}

// kProtocolMismatch if the listener is no rpc server, or of no version we speak.
Result<Greeting> read_greeting(std::span<const std::byte> bytes);

// The time budget of a request, rounded up to whole microseconds so that a
// request with time left never arrives expired; kNoBudget if it does not fit.
std::uint32_t budget_us(Duration left);

// The greatest n with 2^n <= bytes (0 for 0): what a client with buffers for
// payloads of `bytes` says in `answer log2`.
constexpr std::uint32_t log2_floor(std::uint32_t bytes) {
  return bytes == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(bytes)) - 1;
}

}  // namespace yonder::rpc
