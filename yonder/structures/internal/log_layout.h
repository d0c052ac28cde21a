#pragma once
// How a log lies in memory (log.h).
//
//   byte 0         magic                8 to 31   shape
//   byte 64        tail                 in lines of their own: a NIC's atomics on one
//   byte 128       head                 must not disturb readers of the other
//   byte 256       states, 8 bytes for each slot
//   then           data, slot_bytes for each slot, aligned to 64
//
// A state word:   63    62 61                    24 23          0
//                | kind   | lap                    | unit slots   |
//
// A unit, in consecutive slots: its head, the length of each record, the records.
//
// Concurrency and lifetime: values.

#include <cstddef>
#include <cstdint>

#include "yonder/fabric/types.h"

namespace yonder::structures::internal {

inline constexpr std::uint64_t kLogMaking = 0x676E696B616D474CULL;  // "LGmaking"
inline constexpr std::uint64_t kLogReady = 0x313072656E6F594CULL;   // "LYoner01"

struct LogShape {
  std::uint64_t slots = 0;
  std::uint64_t lease_us = 0;
  std::uint32_t slot_bytes = 0;
  std::uint32_t check = 0;  // Of the other fields.

  static constexpr std::uint64_t kOffset = 8;
  static constexpr std::uint64_t kMagicOffset = 0;
  static constexpr std::uint64_t kTailOffset = 64;
  static constexpr std::uint64_t kHeadOffset = 128;
  static constexpr std::uint64_t kStatesOffset = 256;

  constexpr std::uint32_t expected_check() const {
    return static_cast<std::uint32_t>((slots * 0x9E3779B97F4A7C15ULL ^ lease_us * 0xC2B2AE3D27D4EB4FULL ^
                                       slot_bytes * 0x165667B19E3779F9ULL) >>
                                      32);
  }
  constexpr std::uint64_t ring(std::uint64_t slot) const { return slot % slots; }
  constexpr std::uint64_t lap(std::uint64_t slot) const { return slot / slots; }
  constexpr std::uint64_t state_offset(std::uint64_t slot) const { return kStatesOffset + 8 * ring(slot); }
  constexpr std::uint64_t data_offset(std::uint64_t slot) const {
    return data_begin() + ring(slot) * slot_bytes;
  }
  constexpr std::uint64_t data_begin() const { return (kStatesOffset + 8 * slots + 63) / 64 * 64; }
  constexpr std::uint64_t bytes() const { return data_begin() + slots * slot_bytes; }
};
static_assert(sizeof(LogShape) == 24);

enum class SlotKind : std::uint8_t { kEmpty = 0, kCommitted = 1, kSealed = 2 };

inline constexpr std::uint64_t kMaxUnitSlots = (std::uint64_t{1} << 24) - 1;

struct SlotState {
  SlotKind kind = SlotKind::kEmpty;
  std::uint64_t lap = 0;
  std::uint64_t unit_slots = 0;

  constexpr std::uint64_t word() const {
    return static_cast<std::uint64_t>(kind) << 62 | lap << 24 | unit_slots;
  }
  static constexpr SlotState of(std::uint64_t word) {
    return {.kind = static_cast<SlotKind>(word >> 62),
            .lap = word << 2 >> 26,
            .unit_slots = word & kMaxUnitSlots};
  }
  // What the word says of a slot of lap `now`: words of earlier laps say nothing.
  static constexpr SlotState of(std::uint64_t word, std::uint64_t now) {
    const SlotState state = of(word);
    return state.kind != SlotKind::kEmpty && state.lap < now ? SlotState{} : state;
  }
  friend constexpr bool operator==(const SlotState&, const SlotState&) = default;
};
static_assert(SlotState::of(SlotState{SlotKind::kSealed, 77, 5}.word()) ==
              SlotState{SlotKind::kSealed, 77, 5});

struct UnitHead {
  std::uint64_t slot = 0;
  std::uint32_t bytes = 0;  // Of lengths and records.
  std::uint32_t records = 0;
  std::uint64_t checksum = 0;  // Of the fields above and those bytes.
};
static_assert(sizeof(UnitHead) == 24);

}  // namespace yonder::structures::internal
