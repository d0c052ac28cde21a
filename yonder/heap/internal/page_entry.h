#pragma once
// A page's entry: 64 bits that say where its bytes are and who may touch them.
//
//   bit 0       1            2       4       7      8       9        24      32      64
//      | local | referenced | dirty | state | path | fixed | wanted | stamp | index |
//
//   local        the state is kLocal: once more, for the barrier, which asks for it, the next two
//                and the stamp with one comparison
//
//   state        index    meaning
//   kFree        –        no such page
//   kLocal       frame    in a frame; anybody with a hold may use it
//   kLeaving     frame    chosen to leave; whoever needs it takes it back
//   kDeparting   frame    nobody uses it; being written. Who needs it sets `wanted`
//   kAbsent      slot     in a slot of the store; path says how it comes back
//   kArriving    slot     somebody reads it into a frame
//   kClosed      either   its objects are being moved, or the page is being freed; wait
//   kForwarded   record   all its objects have moved; the record says where each one is
//
//   path   how objects of an absent page come in: kByObject each alone, kByPage together.
//          Decided when the page leaves, never in between (Atlas, invariant 1).
//   fixed  its objects never move: always by page, never evacuated.
//
//   referenced  used since the clock hand came by   \  set by holders with an atomic or, in
//   dirty       changed since it came in            /   whatever state they find: see below
//   stamp       counts the page's stays in local memory, 1 to 255 and round again
//
// Who changes a state (E: holder of the egress lock; T: any thread in the barrier):
//
//   from \ to   Local        Leaving  Departing  Absent   Arriving  Closed  Forwarded  Free
//   Free        T opens it
//   Local                    E                                      E
//   Leaving     T or E                E
//   Departing   E (wanted)                       E
//   Absent                                                T         E
//   Arriving    T                                T failed
//   Closed      E                                E                          E          E
//   Forwarded                                                       E
//
// Every change but the first is a compare-and-swap, or is made by the only thread that may
// leave the state; so no change is lost. A holder that saw kLocal may add its bits after the
// egress has changed the state: so the egress goes back to kLocal by compare-and-swap of what it
// finds (never by storing what it remembers), and reads `dirty` only when nobody holds the page.
//
// Concurrency: a value; entries are std::atomic<std::uint64_t>.

#include <cstdint>

#include "yonder/heap/pointer_word.h"

namespace yonder::heap::internal {

enum class PageState : std::uint8_t {
  kFree = 0,
  kLocal = 1,
  kLeaving = 2,
  kDeparting = 3,
  kAbsent = 4,
  kArriving = 5,
  kClosed = 6,
  kForwarded = 7,
};

struct PageEntry {
  static constexpr std::uint64_t kIsLocal = 1u << 0;
  static constexpr std::uint64_t kReferenced = 1u << 1;
  static constexpr std::uint64_t kDirty = 1u << 2;
  static constexpr unsigned kStateShift = 4;
  static constexpr std::uint64_t kStateMask = 7u << kStateShift;
  static constexpr std::uint64_t kByPage = 1u << 7;
  static constexpr std::uint64_t kFixed = 1u << 8;
  static constexpr std::uint64_t kWanted = 1u << 9;
  static constexpr std::uint64_t kStampMask = PointerWord::kStampMask;
  static constexpr unsigned kStampShift = 24;
  static constexpr unsigned kIndexShift = 32;
  static constexpr std::uint64_t kIndexMask = std::uint64_t{0xffffffff} << kIndexShift;
  static constexpr std::uint32_t kMaxIndex = ~0u;

  std::uint64_t bits = 0;

  constexpr PageState state() const { return static_cast<PageState>((bits & kStateMask) >> kStateShift); }
  constexpr bool is_local() const { return (bits & kIsLocal) != 0; }
  constexpr std::uint32_t index() const { return static_cast<std::uint32_t>(bits >> kIndexShift); }
  // In the place where pointer words have it.
  constexpr std::uint64_t stamp_bits() const { return bits & kStampMask; }
  constexpr bool by_page() const { return (bits & kByPage) != 0; }
  constexpr bool fixed() const { return (bits & kFixed) != 0; }
  constexpr bool wanted() const { return (bits & kWanted) != 0; }
  constexpr bool referenced() const { return (bits & kReferenced) != 0; }
  constexpr bool dirty() const { return (bits & kDirty) != 0; }

  // The same page in another state; nobody wants it yet.
  constexpr PageEntry as(PageState state) const {
    const std::uint64_t local = state == PageState::kLocal ? kIsLocal : 0;
    return {(bits & ~(kStateMask | kIsLocal | kWanted)) | static_cast<std::uint64_t>(state) << kStateShift |
            local};
  }
  constexpr PageEntry at(PageState state, std::uint32_t index) const {
    return {(as(state).bits & ~kIndexMask) | std::uint64_t{index} << kIndexShift};
  }
  // In a frame, clean and just asked for; a new stay.
  constexpr PageEntry arrived(std::uint32_t frame) const {
    return {(at(PageState::kLocal, frame).next_stay().bits & ~kDirty) | kReferenced};
  }
  // As if it had just come: pointers to it have to say anew that they were used.
  constexpr PageEntry next_stay() const {
    const std::uint64_t stay = (bits & kStampMask) >> kStampShift;
    const std::uint64_t next = stay == 0xff ? 1 : stay + 1;
    return {(bits & ~kStampMask) | next << kStampShift};
  }
  // In a slot.
  constexpr PageEntry gone(std::uint32_t slot) const {
    return {at(PageState::kAbsent, slot).bits & ~(kReferenced | kDirty)};
  }
  constexpr PageEntry with(std::uint64_t flags) const { return {bits | flags}; }
  constexpr PageEntry on_path(bool by_page) const { return {by_page ? bits | kByPage : bits & ~kByPage}; }
  friend constexpr bool operator==(PageEntry, PageEntry) = default;
};

}  // namespace yonder::heap::internal
