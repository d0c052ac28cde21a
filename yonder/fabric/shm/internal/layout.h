#pragma once
// What two processes share for one connection: the bytes of the link file.
//
//   link file (a memfd made by the target side)
//     0        | lane 0: initiator → target | control lines, served slots
//     kLane    | lane 1: target → initiator |
//     2 kLane  | receive sizes of lane 0, of lane 1    one u32 per posted receive
//              | message cells of lane 0, of lane 1    64 bytes each
//              | slot data of lane 0, of lane 1        32 × 16 KiB each
//
// "Lane d" is everything that side d says: its messages, its requests for served
// memory (and the answers to them), its hazard. In each line one side writes and
// the other reads, so that a line moves only when there is something to tell.
//
// Every byte here may be written by the peer at any time: whoever reads, copies
// once and then checks the copy. Nothing read here is used as a pointer.
//
// Concurrency: per field, below. Lifetime: both sides keep the file mapped until
// their Link is gone; it is sealed against shrinking, so no access can fault.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "yonder/fabric/types.h"

namespace yonder::fabric::shm {

inline constexpr std::size_t kLineBytes = 64;

// Loads a field that a peer may be changing, exactly once: what was checked is
// what is used. (relaxed: the sequence number next to it was acquired.)
template <typename T>
T read_once(const T& field) {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

// ---------------------------------------------------------------- messages

// A message is one head cell and as many tail cells as its bytes need. `sequence`
// is the running number of the cell plus 1, so a cell is new exactly when its
// number is the one the receiver expects: no shared index on the critical path,
// and a message of up to 48 bytes is one cache line from one core to the other.
//
//   head | sequence | acknowledged | kind, length | immediate | 48 bytes      |
//   byte 0          4              8              12          16
//   tail | sequence | 60 bytes                                                |
// Pairs of numbers are one 8-byte word, so that each pair is written and read as
// a whole; the low half of the first word of any cell is its sequence.
struct alignas(kLineBytes) HeadCell {
  static constexpr std::size_t kPayload = 48;
  std::atomic<std::uint64_t> sequence;  // high half: cells of the other lane the writer has consumed
  std::atomic<std::uint64_t> what;      // kind (4 bits), length (28), immediate (high half)
  std::byte payload[kPayload];
};
struct alignas(kLineBytes) TailCell {
  static constexpr std::size_t kPayload = 60;
  std::atomic<std::uint32_t> sequence;
  std::byte payload[kPayload];
};
static_assert(sizeof(HeadCell) == kLineBytes && sizeof(TailCell) == kLineBytes);
static_assert(offsetof(HeadCell, payload) == 16 && offsetof(TailCell, payload) == 4);

enum class MessageKind : std::uint8_t {
  kSend = 1,      // length bytes of payload
  kWriteImm = 2,  // 4 bytes of payload: how many bytes were written into a region
};
// 28 bits; far above kMaxMessageBytes.
inline constexpr std::uint32_t kLengthMask = (std::uint32_t{1} << 28) - 1;
// Longest kSend that an endpoint can ask for. A ring holds two of the longest.
inline constexpr std::uint32_t kMaxMessageBytes = 4u << 20;

// Cells of the express area (see message_ring.h): messages of up to 228 bytes.
inline constexpr std::uint32_t kExpressCells = 4;

constexpr std::uint32_t cells_of(std::uint32_t length) {
  if (length <= HeadCell::kPayload) return 1;
  return 1 + (length - HeadCell::kPayload + TailCell::kPayload - 1) / TailCell::kPayload;
}

// ---------------------------------------------------------------- served memory

// A request for memory that the initiator cannot map: the target's service
// thread executes it. Request n uses slot n % kSlots, its data area and its
// answer, and the slot is free again when the answer was taken; so neither side
// needs any other flow control.
inline constexpr std::uint32_t kSlots = 32;
inline constexpr std::uint32_t kSlotBytes = 16 * 1024;

struct alignas(kLineBytes) ServeRequest {
  std::atomic<std::uint32_t> sequence;  // n + 1
  std::uint8_t op;                      // Op
  std::uint8_t zero[3];
  std::uint64_t key;
  std::uint64_t offset;
  std::uint64_t operand;
  std::uint64_t compare;
  std::uint64_t state;  // 0, or the region state an earlier part of the request met
  std::uint32_t length;
};
struct alignas(kLineBytes) ServeReply {
  std::atomic<std::uint32_t> sequence;  // n + 1
  std::uint16_t status;                 // ErrorCode
  std::uint16_t changed;                // 1: the region was rebound since `state`
  std::uint64_t value;
  std::uint64_t state;
};
static_assert(sizeof(ServeRequest) == kLineBytes && sizeof(ServeReply) == kLineBytes);

// ---------------------------------------------------------------- lanes

struct Lane {
  // Which region state the speaker's thread is copying under now; 0 if none.
  // Writer: the speaker's thread. Reader: the listener when it revokes.
  alignas(kLineBytes) std::atomic<std::uint64_t> hazard;
  // Message cells consumed, told late (see message_ring.h). Writer: the listener.
  alignas(kLineBytes) std::atomic<std::uint32_t> consumed;
  // Receives posted so far for this lane's messages. Writer: the listener.
  alignas(kLineBytes) std::atomic<std::uint32_t> posted;
  // Messages before this cell number that their sender gave up. Writer: the speaker.
  alignas(kLineBytes) std::atomic<std::uint32_t> withdrawn;
  // For one message at a time (see message_ring.h). Writer: the speaker.
  alignas(kLineBytes) HeadCell express[kExpressCells];
  alignas(kLineBytes) ServeRequest requests[kSlots];  // Writer: the speaker.
  ServeReply replies[kSlots];                         // Writer: the listener's service thread.
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::size_t page_up(std::size_t n) { return (n + 4095) / 4096 * 4096; }

// The geometry both sides agree on in the handshake.
struct LinkShape {
  std::uint32_t cells = 0;              // per lane; a power of two
  std::uint32_t receive_depth[2] = {};  // of the listener of each lane; powers of two

  static constexpr std::uint32_t cells_for(std::uint32_t max_message) {
    const std::uint32_t need = 2 * cells_of(max_message);
    return std::bit_ceil(need < 256 ? 256u : need);
  }
  // Whether a peer's numbers can be a shape of ours.
  constexpr bool valid() const {
    const auto depth_ok = [](std::uint32_t n) { return std::has_single_bit(n) && n <= kMaxReceiveDepth; };
    return std::has_single_bit(cells) && cells >= 256 && cells <= cells_for(kMaxMessageBytes) &&
           depth_ok(receive_depth[0]) && depth_ok(receive_depth[1]);
  }

  static constexpr std::uint32_t kMaxReceiveDepth = 1u << 16;
  static constexpr std::size_t kLane = page_up(sizeof(Lane));

  constexpr std::size_t lane_at(int d) const { return static_cast<std::size_t>(d) * kLane; }
  constexpr std::size_t sizes_at(int d) const {
    return 2 * kLane + (d == 0 ? 0 : page_up(std::size_t{receive_depth[0]} * 4));
  }
  constexpr std::size_t cells_at(int d) const {
    return sizes_at(1) + page_up(std::size_t{receive_depth[1]} * 4) +
           static_cast<std::size_t>(d) * cells * kLineBytes;
  }
  constexpr std::size_t data_at(int d) const {
    return cells_at(0) + 2 * std::size_t{cells} * kLineBytes +
           static_cast<std::size_t>(d) * kSlots * kSlotBytes;
  }
  constexpr std::size_t bytes() const { return data_at(0) + 2 * std::size_t{kSlots} * kSlotBytes; }
};

}  // namespace yonder::fabric::shm
