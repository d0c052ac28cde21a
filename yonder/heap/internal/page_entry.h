#pragma once
// A page's entry: 32 bits that say where its bytes are and who may touch them.
//
//   bit 0      3      4       5        6                       32
//      | state | path | fixed | wanted | index                  |
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
// leave the state; so no change is lost.
//
// Concurrency: a value; entries are std::atomic<std::uint32_t>.

#include <cstdint>

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
  static constexpr std::uint32_t kByPage = 1u << 3;
  static constexpr std::uint32_t kFixed = 1u << 4;
  static constexpr std::uint32_t kWanted = 1u << 5;
  static constexpr unsigned kIndexShift = 6;
  static constexpr std::uint32_t kMaxIndex = (1u << (32 - kIndexShift)) - 1;

  std::uint32_t bits = 0;

  constexpr PageState state() const { return static_cast<PageState>(bits & 7); }
  constexpr bool is_local() const { return state() == PageState::kLocal; }
  constexpr std::uint32_t index() const { return bits >> kIndexShift; }
  constexpr bool by_page() const { return (bits & kByPage) != 0; }
  constexpr bool fixed() const { return (bits & kFixed) != 0; }
  constexpr bool wanted() const { return (bits & kWanted) != 0; }

  // The same page in another state; nobody wants it yet.
  constexpr PageEntry as(PageState state, std::uint32_t index) const {
    return {(bits & (kByPage | kFixed)) | static_cast<std::uint32_t>(state) | index << kIndexShift};
  }
  constexpr PageEntry as(PageState state) const { return as(state, index()); }
  constexpr PageEntry on_path(bool by_page) const { return {by_page ? bits | kByPage : bits & ~kByPage}; }
  friend constexpr bool operator==(PageEntry, PageEntry) = default;
};

}  // namespace yonder::heap::internal
