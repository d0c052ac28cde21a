#pragma once
// The bytes of the tcp provider, after the hand-shake (preface.h).
//
// A stream has one initiator and one target. The initiator sends requests, the
// target answers in the same order; a pair of endpoints therefore uses two
// streams, one per direction. That is what keeps replies from waiting behind
// requests: an initiator can always take its replies, so two peers that read
// each other's memory at full speed cannot block each other for ever.
//
// Request, 72 bytes, little endian:
//   byte  0       2     3    4       6      8     12       16    24       32
//        | magic | ver | op | flags | zero | id  | length | key | offset |
//         32        40        48       52          56      64            72
//        | operand | compare | tenant | immediate | epoch | budget, ns  |
// Reply, 24 bytes:
//   byte  0       2     3         4        6      8     12       16       24
//        | magic | ver | 128 + op | status | zero | id  | length | value |
//
// `length` bytes of payload follow a write, a write-immediate, a send, and a
// successful reply to a read. A payload of more than kChunkBytes travels in
// chunks, each behind a header of its own, so that either side can give up in
// the middle without giving up the connection:
//   byte  0       2        4        8
//        | magic | status | length |    status ≠ 0: the rest will not come
//
// `budget` is the time the initiator still gives the request; clocks of two
// hosts cannot be compared, durations can. `length` of an atomic is 0: its word
// has 8 bytes. An unsignalled request (flag 1) is answered only if it fails.
//
// Concurrency: values.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "yonder/base/error.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric::tcp {

static_assert(std::endian::native == std::endian::little, "headers are copied as they are");

inline constexpr std::uint16_t kFrameMagic = 0x5946;  // "FY" in memory order
inline constexpr std::uint8_t kFrameVersion = 1;
inline constexpr std::uint8_t kReplyBit = 0x80;
inline constexpr std::uint16_t kWireUnsignalled = 1;
inline constexpr std::uint32_t kChunkBytes = 64 * 1024;

struct RequestHeader {
  std::uint16_t magic = kFrameMagic;
  std::uint8_t version = kFrameVersion;
  std::uint8_t op = 0;
  std::uint16_t flags = 0;
  std::uint16_t zero = 0;
  std::uint32_t id = 0;
  std::uint32_t length = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  std::uint32_t tenant = 0;
  std::uint32_t immediate = 0;
  std::uint64_t epoch = 0;
  std::uint64_t budget_ns = 0;

  Op operation() const { return static_cast<Op>(op); }
  bool is_unsignalled() const { return (flags & kWireUnsignalled) != 0; }
  // Whether a target may see this at all; nothing about rights or bounds.
  bool is_valid() const;
  // Whether `length` bytes of payload follow.
  bool has_payload() const;
};
static_assert(sizeof(RequestHeader) == 72);
static_assert(offsetof(RequestHeader, op) == 3 && offsetof(RequestHeader, id) == 8);
static_assert(offsetof(RequestHeader, key) == 16 && offsetof(RequestHeader, operand) == 32);
static_assert(offsetof(RequestHeader, tenant) == 48 && offsetof(RequestHeader, epoch) == 56);

struct ReplyHeader {
  std::uint16_t magic = kFrameMagic;
  std::uint8_t version = kFrameVersion;
  std::uint8_t op = 0;
  std::uint16_t status = 0;
  std::uint16_t zero = 0;
  std::uint32_t id = 0;
  std::uint32_t length = 0;
  std::uint64_t value = 0;

  Op operation() const { return static_cast<Op>(op & ~kReplyBit); }
  ErrorCode code() const { return static_cast<ErrorCode>(status); }
  bool is_valid() const;
  bool has_payload() const { return length != 0; }
};
static_assert(sizeof(ReplyHeader) == 24);
static_assert(offsetof(ReplyHeader, op) == offsetof(RequestHeader, op), "the kind is found before the size");
static_assert(offsetof(ReplyHeader, id) == 8 && offsetof(ReplyHeader, value) == 16);

// What a reply says, without its fixed fields.
struct ReplyFields {
  std::uint8_t op = 0;  // Of the request.
  ErrorCode status = ErrorCode::kOk;
  std::uint32_t id = 0;
  std::uint32_t length = 0;
  std::uint64_t value = 0;
};

// The first word of a ReplyHeader.
constexpr std::uint64_t reply_kind(std::uint8_t op, ErrorCode status) {
  return std::uint64_t{kFrameMagic} | std::uint64_t{kFrameVersion} << 16 |
         (std::uint64_t{op} | kReplyBit) << 24 | std::uint64_t{static_cast<std::uint16_t>(status)} << 32;
}

// Writes a ReplyHeader to any address, in three whole words: a struct filled
// field by field and then copied would wait for its own small stores, about 10 ns
// per reply.
inline void encode_reply(std::byte* out, const ReplyFields& fields) {
  const std::uint64_t kind = reply_kind(fields.op, fields.status);
  const std::uint64_t which = std::uint64_t{fields.id} | std::uint64_t{fields.length} << 32;
  std::memcpy(out, &kind, 8);
  std::memcpy(out + 8, &which, 8);
  std::memcpy(out + 16, &fields.value, 8);
}

struct ChunkHeader {
  std::uint16_t magic = kFrameMagic;
  std::uint16_t status = 0;
  std::uint32_t length = 0;

  // `left` is what the frame still has to bring.
  bool is_valid(std::uint32_t left) const;
};
static_assert(sizeof(ChunkHeader) == 8);

constexpr bool is_chunked(std::uint32_t length) { return length > kChunkBytes; }
constexpr bool is_transfer(std::uint32_t length) { return length != 0 && length <= kMaxTransferBytes; }

// Inline: once per frame, on both sides.
inline bool RequestHeader::is_valid() const {
  if (magic != kFrameMagic || version != kFrameVersion || zero != 0) return false;
  if ((flags & ~kWireUnsignalled) != 0) return false;
  switch (operation()) {
    case Op::kRead:
    case Op::kWrite:
    case Op::kWriteImm:
      return is_transfer(length);
    case Op::kSend:
      return length <= kMaxTransferBytes;
    case Op::kCompareSwap:
    case Op::kFetchAdd:
      return length == 0;
    default:
      return false;
  }
}

inline bool RequestHeader::has_payload() const { return operation() != Op::kRead && length != 0; }

inline bool ReplyHeader::is_valid() const {
  if (magic != kFrameMagic || version != kFrameVersion || zero != 0 || (op & kReplyBit) == 0) return false;
  if (operation() < Op::kRead || operation() > Op::kFetchAdd) return false;
  // Only a successful read brings bytes, and it always does.
  if (status == 0 && operation() == Op::kRead) return is_transfer(length);
  return length == 0;
}

inline bool ChunkHeader::is_valid(std::uint32_t left) const {
  if (magic != kFrameMagic) return false;
  if (status != 0) return length == 0;
  return length != 0 && length <= kChunkBytes && length <= left;
}

}  // namespace yonder::fabric::tcp
