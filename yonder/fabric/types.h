#pragma once
// The vocabulary of the fabric: rights, keys, addresses, requests, completions.
//
// A *target* registers memory in *regions* and hands out tokens; an *initiator*
// posts *work requests* that name a region by its key and an offset, and polls
// *completions*. Nothing here belongs to one provider.
//
// Concurrency: values. Lifetime: a request borrows its local memory until its
// completion (or, with kInline, only until post() returns).

#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/error.h"
#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::fabric {

// ---------------------------------------------------------------- rights

enum class Rights : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2, kAtomic = 4, kAll = 7 };

constexpr Rights operator|(Rights a, Rights b) {
  return static_cast<Rights>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool allows(Rights have, Rights need) {
  return (static_cast<unsigned>(have) & static_cast<unsigned>(need)) == static_cast<unsigned>(need);
}

// Who executes the atomics of a region. Words in a kNic region must not be
// changed by CPU atomics at the same time: on many NICs the two are not atomic
// with respect to each other (facts: Soft-RoCE loses updates).
enum class AtomicsBy : std::uint8_t { kCpu = 0, kNic = 1 };

// ---------------------------------------------------------------- regions

// Names a region at its target. 64 random bits: a key that was not handed out
// cannot be guessed. (On verbs the NIC itself checks 32 of them: the rkey.)
struct RegionKey {
  std::uint64_t value = 0;
  friend constexpr bool operator==(RegionKey, RegionKey) = default;
};

// Where in remote memory: an offset from the start of a region. Offsets, not
// addresses, travel: a target can move a region without telling anybody.
struct RemoteAddress {
  RegionKey key;
  std::uint64_t offset = 0;

  constexpr RemoteAddress operator+(std::uint64_t bytes) const { return {key, offset + bytes}; }
  friend constexpr bool operator==(const RemoteAddress&, const RemoteAddress&) = default;
};

// Everything an initiator needs to use a region; plain bytes that may be stored
// and sent. Holding a token is the permission: treat it as a secret.
//
//   byte  0        8         16       17        18          24
//        | key    | length  | rights | atomics | zero       |
struct RegionToken {
  static constexpr std::size_t kEncodedBytes = 24;

  RegionKey key;
  std::uint64_t length = 0;
  Rights rights = Rights::kNone;
  AtomicsBy atomics = AtomicsBy::kCpu;

  constexpr RemoteAddress at(std::uint64_t offset) const { return {key, offset}; }
  void encode(std::span<std::byte, kEncodedBytes> out) const;
  // kCorrupt if the bytes cannot be a token: they may come from a peer.
  static Result<RegionToken> decode(std::span<const std::byte> bytes);

  friend constexpr bool operator==(const RegionToken&, const RegionToken&) = default;
};

// ---------------------------------------------------------------- local memory

// Lets a provider with a NIC use a local buffer in place. Made by
// Region::local_key(); kUnregistered always works, at the price of one copy
// through the provider's own registered buffers on verbs.
struct LocalKey {
  std::uint64_t value = 0;
  friend constexpr bool operator==(LocalKey, LocalKey) = default;
};
inline constexpr LocalKey kUnregistered{};

// One piece of a local scatter-gather list.
struct LocalPiece {
  std::byte* data = nullptr;
  std::uint32_t length = 0;
  LocalKey key = kUnregistered;

  // Takes writable and constant bytes alike: which operation changes them (reads
  // and receives do) is known to the caller.
  static LocalPiece of(std::span<const std::byte> bytes, LocalKey key = kUnregistered) {
    return {const_cast<std::byte*>(bytes.data()), static_cast<std::uint32_t>(bytes.size()), key};
  }
};

// ---------------------------------------------------------------- requests

enum class Op : std::uint8_t {
  kRead = 1,         // remote → local pieces
  kWrite = 2,        // local pieces → remote
  kWriteImm = 3,     // the same, then a receive completes at the peer with `immediate`
  kSend = 4,         // local pieces → a receive buffer of the peer; may be empty
  kCompareSwap = 5,  // if *remote == compare then *remote = operand; old value in the completion
  kFetchAdd = 6,     // *remote += operand; old value in the completion
  // Only in completions:
  kReceive = 7,  // a message arrived in a posted receive buffer
  kReceiveImm =
      8,  // a peer's kWriteImm is complete in our memory; consumed a receive buffer, left it untouched
};

enum class RequestFlags : std::uint8_t {
  kNone = 0,
  // No completion on success; a failure always completes. It still counts
  // against the depth until a later signalled request of the endpoint completes.
  kUnsignalled = 1,
  // The payload is copied during post(): the buffers may be reused at once.
  // At most Limits::max_inline bytes; kSend, kWrite and kWriteImm only.
  kInline = 2,
  // user_data points to an Operation (completion_queue.h), which gets the
  // completion by a call instead of through poll()'s output.
  kOperation = 4,
};
constexpr RequestFlags operator|(RequestFlags a, RequestFlags b) {
  return static_cast<RequestFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has(RequestFlags flags, RequestFlags flag) {
  return (static_cast<unsigned>(flags) & static_cast<unsigned>(flag)) != 0;
}

struct WorkRequest {
  Op op = Op::kRead;
  RequestFlags flags = RequestFlags::kNone;
  std::uint32_t immediate = 0;        // kWriteImm, kSend
  std::uint64_t user_data = 0;        // comes back in the completion
  std::span<const LocalPiece> local;  // read, write, send; the array itself is copied by post()
  RemoteAddress remote;               // all but send
  std::uint64_t operand = 0;          // kFetchAdd: what to add; kCompareSwap: the new value
  std::uint64_t compare = 0;          // kCompareSwap
  Deadline deadline;                  // default: the endpoint's default timeout from post()
};

// A buffer for one incoming message. Borrowed until its completion.
struct ReceiveRequest {
  std::uint64_t user_data = 0;
  LocalPiece buffer;
  // kNone or kOperation; comes back in Completion::flags. With kOperation the
  // message is handed over by a call, so a server needs no loop of its own.
  RequestFlags flags = RequestFlags::kNone;
};

// ---------------------------------------------------------------- completions

struct EndpointTag {};
using EndpointId = StrongId<EndpointTag, std::uint64_t>;

// The end of a request or of a posted receive; each ends exactly once.
struct Completion {
  std::uint64_t user_data = 0;
  std::uint64_t value = 0;      // atomics: the word before the operation
  EndpointId endpoint{0};       // of which endpoint (several share one queue)
  std::uint32_t length = 0;     // bytes moved or received
  std::uint32_t immediate = 0;  // kReceive (what kSend carried), kReceiveImm
  ErrorCode status = ErrorCode::kOk;
  Op op = Op::kRead;
  RequestFlags flags = RequestFlags::kNone;  // those of the request

  bool ok() const { return status == ErrorCode::kOk; }
};

// What an endpoint accepts. Fixed when it is made.
struct Limits {
  std::uint32_t depth = 0;          // requests outstanding
  std::uint32_t receive_depth = 0;  // receives posted
  std::uint32_t max_pieces = 0;     // local pieces of one request
  std::uint32_t max_inline = 0;     // bytes
  std::uint32_t max_message = 0;    // bytes of one kSend
  std::uint64_t max_transfer = 0;   // bytes of one read or write
};

// No request moves more than this on any provider (verbs counts in 31 bits).
inline constexpr std::uint64_t kMaxTransferBytes = std::uint64_t{1} << 30;
// No request has more local pieces than this on any provider.
inline constexpr std::uint32_t kMaxPieces = 32;

// The right an operation needs at the target; kNone for kSend.
constexpr Rights needed_right(Op op) {
  switch (op) {
    case Op::kRead:
      return Rights::kRead;
    case Op::kWrite:
    case Op::kWriteImm:
      return Rights::kWrite;
    case Op::kCompareSwap:
    case Op::kFetchAdd:
      return Rights::kAtomic;
    default:
      return Rights::kNone;
  }
}
constexpr bool is_atomic(Op op) { return op == Op::kCompareSwap || op == Op::kFetchAdd; }

// What can be told about a request without knowing the target: lengths, pieces,
// alignment, inline size. kOk, or the code its completion must carry. Providers
// call it at post(), so that all refuse alike.
ErrorCode check_request(const WorkRequest& request, const Limits& limits);
// Sum of the local pieces (at most kMaxPieces × 4 GiB: cannot overflow).
std::uint64_t local_bytes(const WorkRequest& request);

// The access check of the target side, one for all software providers: kOk, or
// kOutOfBounds, kMisaligned, kAccessDenied. `length` is 8 for atomics.
ErrorCode check_access(Op op, std::uint64_t offset, std::uint64_t length, std::uint64_t region_length,
                       Rights rights);

}  // namespace yonder::fabric
