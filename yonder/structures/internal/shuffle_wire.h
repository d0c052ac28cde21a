#pragma once
// The bytes of a shuffle: what a receiver's memory looks like, what a batch is, and
// what a receiver says of itself when a sender connects.
//
// The inbox of a receiver (one region):
//
//   | control of sender 0 | … of sender n-1 | ring of sender 0 | … of sender n-1 |
//
//   control   0          64            128         192
//            | tail      | consumed    | owner     |     one cache line each: written by
//              sender      receiver      senders         (CAS, once)
//
// Tail and consumed count bytes since the beginning; a position is taken modulo
// ring_bytes, which is a power of two. A batch lies in one piece: if it does not fit
// before the end of the ring, a header of kind kSkip covers the rest.
//
//   batch     0        8       12      16          20            24     28           32
//            | ticket | bytes | count | key bytes | value bytes | kind | body bytes | bodies … |
//            … | zero to 8 | directory: key bytes, value bytes per entry | zero to 32 |
//
// Bodies are key, value, key, value … without gaps. If all entries of a batch have
// the same lengths, these stand in the header and there is no directory; otherwise
// both fields are kMixed. The directory is last because a packing sender knows the
// number of entries last.
//
// Concurrency: values and pure functions. Lifetime: nothing is kept.

#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/result.h"
#include "yonder/fabric/types.h"
#include "yonder/structures/shuffle.h"

namespace yonder::structures::internal {

inline constexpr std::uint64_t kBatchAlignment = 32;
inline constexpr std::uint64_t kMinRingBytes = 1024;
inline constexpr std::uint64_t kMaxRingBytes = std::uint64_t{1} << 30;
inline constexpr std::uint32_t kMaxSenders = 4096;
// Of one batch. A bound of its own, because empty entries take no bytes: without it a
// header of 32 bytes could announce four billion of them.
inline constexpr std::uint32_t kMaxBatchEntries = 65'536;
inline constexpr std::uint32_t kMixed = ~std::uint32_t{0};

constexpr std::uint64_t round_to(std::uint64_t bytes, std::uint64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

enum class BatchKind : std::uint32_t { kEntries = 1, kSkip = 2, kEndOfRound = 3, kEndOfStream = 4 };

struct BatchHeader {
  std::uint64_t ticket = 0;  // the connection's secret + the number of the batch in its ring
  std::uint32_t bytes = 0;   // of the whole batch, a multiple of kBatchAlignment
  std::uint32_t count = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  BatchKind kind = BatchKind::kEntries;
  std::uint32_t body_bytes = 0;  // of all keys and values
};
static_assert(sizeof(BatchHeader) == kBatchAlignment);

struct EntryLengths {
  std::uint32_t key = 0;
  std::uint32_t value = 0;
  friend bool operator==(const EntryLengths&, const EntryLengths&) = default;
};
static_assert(sizeof(EntryLengths) == 8);

// Bytes of a batch with `count` entries of `body_bytes` in all.
constexpr std::uint64_t batch_bytes(std::uint64_t body_bytes, std::uint64_t count, bool mixed) {
  const std::uint64_t bodies = sizeof(BatchHeader) + body_bytes;
  return round_to(mixed ? round_to(bodies, 8) + count * sizeof(EntryLengths) : bodies, kBatchAlignment);
}

// Where things are in an inbox.
struct InboxShape {
  static constexpr std::uint64_t kControlBytes = 192;

  std::uint32_t senders = 0;
  std::uint64_t ring_bytes = 0;

  constexpr std::uint64_t tail(std::uint32_t sender) const { return sender * kControlBytes; }
  constexpr std::uint64_t consumed(std::uint32_t sender) const { return tail(sender) + 64; }
  constexpr std::uint64_t owner(std::uint32_t sender) const { return tail(sender) + 128; }
  constexpr std::uint64_t ring(std::uint32_t sender) const {
    return round_to(senders * kControlBytes, 4096) + sender * ring_bytes;
  }
  constexpr std::uint64_t total_bytes() const { return ring(senders); }
  // The largest batch: with the skip before it, which is smaller, it fits into an
  // empty ring.
  constexpr std::uint64_t max_batch() const { return ring_bytes / 2; }
};

// kInvalidArgument, with the field that is wrong in the message.
Result<void> check_shape(const InboxShape& shape);

// What a receiver tells those who connect (ListenOptions::greeting).
//
//   byte 0       8         12         16        20     24           32       40      64
//       | magic | version | receiver | senders | zero | ring bytes | secret | token |
struct InboxGreeting {
  static constexpr std::size_t kEncodedBytes = 64;

  std::uint32_t receiver = 0;
  InboxShape shape;
  std::uint64_t secret = 0;
  fabric::RegionToken token;

  void encode(std::span<std::byte, kEncodedBytes> out) const;
  // kProtocolMismatch if nobody shuffles there, kCorrupt if the numbers cannot be.
  static Result<InboxGreeting> decode(std::span<const std::byte> bytes);
};

}  // namespace yonder::structures::internal

namespace yonder::structures {

// Makes batches of a peer's bytes.
class ShuffleBatchParser {
 public:
  // The header alone: what follows it is `available` bytes of ring at most. kCorrupt
  // unless it is the batch `ticket` and its fields agree with each other.
  static Result<internal::BatchHeader> check_header(std::span<const std::byte> bytes, std::uint64_t ticket,
                                                    std::uint64_t available);
  // The batch in `bytes`, which begin with `header` (checked before) and must not
  // change any more: kCorrupt unless the lengths of the entries add up.
  static Result<ShuffleBatch> parse(std::span<const std::byte> bytes, const internal::BatchHeader& header,
                                    std::uint32_t sender);
};

}  // namespace yonder::structures
