#pragma once
// HeaderWord: the first 8 bytes of every slot. It says who lives here, which
// version the payload has, and what is being done to it.
//
//   live, writing, moving:
//     bit  0       2       3         22          38           64
//         | state | blank | version | object id | home block |
//   moved (the object is elsewhere; readers follow, then check the identity there):
//     bit  0       2              20              46    64
//         | state | slot          | frame         | zero |
//   free: the home block is 0 (the null pointer's). The version stays, so that the
//   next object in this slot continues it and no slow reader mistakes one for the
//   other; the id stays, so that the next object gets another one and a pointer to
//   the old object does not name the new one. Memory that was never used is 0:
//   free, version 0; a used slot never has version 0 again.
//
//   state   | one-sided or local read      | write, free            | move
//   --------+------------------------------+------------------------+---------
//   free    | no such object               | no such object         | –
//   live    | copy, then check again       | → writing (CAS)        | → moving (CAS)
//   writing | retry after a pause          | wait                   | skip, later
//   moving  | copy, then check again       | wait (one copy long)   | –
//   moved   | follow to (frame, slot)      | follow                 | –
//
// Blank: nothing was written to this object yet. All its bytes are zero, whatever
// lies in the slot: the bytes of a freed object stay there, and nobody looks at
// them. So an allocation touches one cache line, whatever its size, a move of a
// blank object copies nothing, and the first write fills the slot. A reader that
// meets a blank word (in a readable state) answers with zeros; the word alone
// proves that answer.
//
// Invariants
//   H1  Payload bytes of a slot change only while its state is writing, or while
//       it is free and no pointer to it exists.
//   H2  version grows by one with every write; a copy whose header had the same
//       identity and version before and after, with state live or moving, is the
//       object's value at the moment of the first look.
//   H3  A slot becomes moved only after the destination holds header and payload,
//       and the destination leaves its initial state "moving" only after that.
//       So no write can be acknowledged at the destination while a reader may
//       still accept the source.
//
// Version wraps after 2^19 - 1 writes. A write takes at least 20 ns, so a copy that
// takes less than 10.4 ms cannot be fooled by a full circle; longer copies are
// rejected (kVersionWrapBound).
//
// Concurrency: a value; slots hold it in a std::atomic<std::uint64_t>.

#include <chrono>
#include <cstdint>

#include "yonder/base/time.h"
#include "yonder/node/object_ptr.h"

namespace yonder::node {

struct FrameIdTag;
using FrameId = StrongId<FrameIdTag, std::uint32_t>;  // In units of 4 KiB of physical memory.

inline constexpr unsigned kStateBits = 2;
inline constexpr unsigned kBlankBits = 1;
inline constexpr unsigned kVersionBits = 19;
inline constexpr unsigned kFrameIdBits = 26;
static_assert(kStateBits + kBlankBits + kVersionBits + kObjectIdBits + kBlockIdBits == 64);
static_assert(kStateBits + kSlotBits + kFrameIdBits <= 64);

inline constexpr Duration kVersionWrapBound = std::chrono::milliseconds(10);

enum class SlotState : std::uint8_t { kLive = 0, kWriting = 1, kMoving = 2, kMoved = 3 };

class HeaderWord {
 public:
  constexpr HeaderWord() = default;  // Free, version 0.
  constexpr explicit HeaderWord(std::uint64_t bits) : bits_(bits) {}
  // Not blank.
  static constexpr HeaderWord of(BlockId home, ObjectId id, std::uint32_t version, SlotState state) {
    return HeaderWord(static_cast<std::uint64_t>(state) |
                      std::uint64_t{version & kVersionMask} << kVersionShift |
                      std::uint64_t{id.value()} << kIdShift | std::uint64_t{home.value()} << kHomeShift);
  }
  // What a slot holds whose object is elsewhere: free, but not memory never used.
  static constexpr HeaderWord left();
  static constexpr HeaderWord moved_to(FrameId frame, std::uint32_t slot) {
    return HeaderWord(static_cast<std::uint64_t>(SlotState::kMoved) | std::uint64_t{slot} << kStateBits |
                      std::uint64_t{frame.value()} << (kStateBits + kSlotBits));
  }

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr bool is_free() const { return !is_moved() && home().value() == 0; }
  constexpr bool never_used() const { return bits_ == 0; }
  constexpr SlotState state() const { return static_cast<SlotState>(bits_ & 3); }
  constexpr bool is_moved() const { return state() == SlotState::kMoved; }

  // Of a word that is not moved.
  constexpr bool is_blank() const { return (bits_ & kBlank) != 0; }
  constexpr std::uint32_t version() const {
    return static_cast<std::uint32_t>(bits_ >> kVersionShift) & kVersionMask;
  }
  constexpr ObjectId id() const { return ObjectId(static_cast<std::uint16_t>(bits_ >> kIdShift)); }
  constexpr BlockId home() const { return BlockId(static_cast<std::uint32_t>(bits_ >> kHomeShift)); }
  // Of a moved word.
  constexpr FrameId frame() const {
    return FrameId(static_cast<std::uint32_t>(bits_ >> (kStateBits + kSlotBits)) & kFrameMask);
  }
  constexpr std::uint32_t slot() const { return static_cast<std::uint32_t>(bits_ >> kStateBits) & kSlotMask; }

  constexpr bool names(BlockId home_block, ObjectId object) const {
    return !is_moved() && home() == home_block && id() == object;
  }
  constexpr HeaderWord with_state(SlotState state) const {
    return HeaderWord((bits_ & ~std::uint64_t{3}) | static_cast<std::uint64_t>(state));
  }
  // The same object under another identity.
  constexpr HeaderWord renamed(BlockId home_block, ObjectId object) const {
    return HeaderWord(of(home_block, object, version(), state()).bits_ | (bits_ & kBlank));
  }
  constexpr HeaderWord as_blank() const { return HeaderWord(bits_ | kBlank); }
  // What a write leaves behind.
  constexpr HeaderWord written() const { return of(home(), id(), version_after(), SlotState::kLive); }
  // What a slot holds after its object was freed.
  constexpr HeaderWord freed() const { return of(BlockId(0), id(), version_after(), SlotState::kLive); }
  // The first word of a new object in this free slot; not blank yet.
  constexpr HeaderWord reused_by(BlockId home_block, ObjectId object) const {
    return of(home_block, object, version_after(), SlotState::kLive);
  }

  // H2: whether a copy made between the two looks is a value of the object. No copy is
  // that of a blank one: its value is zeros, and its word is the proof.
  friend constexpr bool proves_copy(HeaderWord before, HeaderWord after) {
    return before.is_readable() && after.is_readable() && !before.is_blank() &&
           before.with_state(SlotState::kLive).bits_ == after.with_state(SlotState::kLive).bits_;
  }
  constexpr bool is_readable() const {
    return !is_free() && (state() == SlotState::kLive || state() == SlotState::kMoving);
  }
  friend constexpr bool operator==(HeaderWord, HeaderWord) = default;

 private:
  static constexpr unsigned kVersionShift = kStateBits + kBlankBits;
  static constexpr unsigned kIdShift = kVersionShift + kVersionBits;
  static constexpr unsigned kHomeShift = kIdShift + kObjectIdBits;
  static constexpr std::uint64_t kBlank = std::uint64_t{1} << kStateBits;
  static constexpr std::uint32_t kVersionMask = (std::uint32_t{1} << kVersionBits) - 1;
  static constexpr std::uint32_t kSlotMask = (std::uint32_t{1} << kSlotBits) - 1;
  static constexpr std::uint32_t kFrameMask = (std::uint32_t{1} << kFrameIdBits) - 1;

  // 0 is left to memory that was never used.
  constexpr std::uint32_t version_after() const { return version() == kVersionMask ? 1 : version() + 1; }

  std::uint64_t bits_ = 0;
};

constexpr HeaderWord HeaderWord::left() { return of(BlockId(0), ObjectId(0), 1, SlotState::kLive); }

}  // namespace yonder::node
