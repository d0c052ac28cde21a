#pragma once
// PageWord: what a paged space knows of one page, in one atomic word.
//
//   bits   0–2     3        4          5–7      8–10    11–12   13–20   21     22     23           24
//         state   dirty    predicted  habit    lives   heat    stamp   side   held   other held   slot used
//
//   state      in the address space   in the store          who may change it
//   ---------  ---------------------  --------------------  -----------------------------
//   kFresh     nothing                nothing: it is zero   whoever claims it (→ kBusy)
//   kFar       nothing                its content           whoever claims it (→ kBusy)
//   kBusy      changing               –                     only who made it kBusy
//   kResident  its content            its content if clean  whoever claims it; the sweeper
//                                                           (→ kChosen)
//   kChosen    its content            its content if clean  the sweeper (→ kLeaving, or back)
//   kLeaving   its content, and       being written         the sweeper (→ kBusy → kFar), or
//              write-protected                              a writer who rescues it (→ kBusy
//                                                           → kResident, dirty)
//
// Concurrency: a value; the words are changed by compare-and-swap only, except that who
// made a word kBusy stores its successor.

#include <algorithm>
#include <cstdint>

namespace yonder::heap::internal {

enum class PagingState : std::uint32_t {
  kFresh = 0,
  kFar = 1,
  kBusy = 2,
  kResident = 3,
  kChosen = 4,
  kLeaving = 5
};

class PageWord {
 public:
  static constexpr std::uint32_t kMaxHabit = 7;
  static constexpr std::uint32_t kMaxLives = 7;
  static constexpr std::uint32_t kMaxHeat = 3;
  // In this time as many pages leave as a round has, nearly: see PagingCore::tick().
  static constexpr std::uint8_t kTicksPerRound = 64;
  static constexpr std::uint8_t kSoonTicks = kTicksPerRound / 8;

  constexpr PageWord() = default;
  constexpr explicit PageWord(std::uint32_t bits) : bits_(bits) {}
  constexpr std::uint32_t bits() const { return bits_; }

  constexpr PagingState state() const { return static_cast<PagingState>(field(kState, 3)); }
  // The store does not have its content: it was written, or may be without our knowing.
  constexpr bool dirty() const { return field(kDirty, 1) != 0; }
  // It became resident writable because it was mostly written before (see habit), so that
  // nobody knows whether it was written this time.
  constexpr bool predicted() const { return field(kPredicted, 1) != 0; }
  // How often a page that comes back is taken for dirty without a proof.
  constexpr std::uint32_t habit() const { return field(kHabit, 3); }
  // How many more visits of the sweeper it survives.
  constexpr std::uint32_t lives() const { return field(kLives, 3); }
  // How often in a row it was missed soon after it had left.
  constexpr std::uint32_t heat() const { return field(kHeat, 2); }
  // The core's tick when it left.
  constexpr std::uint8_t stamp() const { return static_cast<std::uint8_t>(field(kStamp, 8)); }
  // In which of its two slots the content is. A page has two because of fork(): what a
  // child may still read there is held, and must not be overwritten (paging_forks.h).
  constexpr unsigned side() const { return field(kSide, 1); }
  constexpr bool held() const { return field(kHeld, 1) != 0; }
  constexpr bool other_held() const { return field(kOtherHeld, 1) != 0; }

  // Something was written to its slot, so that a fresh page and its slot may differ. (For
  // lends: paging_lender.h.)
  constexpr bool slot_used() const { return field(kSlotUsed, 1) != 0; }

  constexpr PageWord with_state(PagingState state) const {
    return with(kState, 3, static_cast<std::uint32_t>(state));
  }
  constexpr PageWord with_dirty(bool dirty) const { return with(kDirty, 1, dirty ? 1 : 0); }
  constexpr PageWord with_predicted(bool predicted) const { return with(kPredicted, 1, predicted ? 1 : 0); }
  constexpr PageWord with_habit(std::uint32_t habit) const {
    return with(kHabit, 3, std::min(habit, kMaxHabit));
  }
  constexpr PageWord with_lives(std::uint32_t lives) const {
    return with(kLives, 3, std::min(lives, kMaxLives));
  }
  constexpr PageWord with_heat(std::uint32_t heat) const { return with(kHeat, 2, std::min(heat, kMaxHeat)); }
  constexpr PageWord with_stamp(std::uint8_t stamp) const { return with(kStamp, 8, stamp); }
  constexpr PageWord with_held(bool held) const { return with(kHeld, 1, held ? 1 : 0); }
  constexpr PageWord with_other_held(bool held) const { return with(kOtherHeld, 1, held ? 1 : 0); }
  constexpr PageWord with_slot_used(bool used) const { return with(kSlotUsed, 1, used ? 1 : 0); }
  // The content goes to the other slot, and the one it was in stays as it is.
  constexpr PageWord on_other_side() const {
    return with(kSide, 1, 1 - side()).with_held(false).with_other_held(held());
  }
  // As if it had never been touched, except for what children hold and the slot has.
  constexpr PageWord forgotten() const { return PageWord(bits_ & kLastingMask); }

  // What a page is worth when it is missed, at tick `now`. One return soon after it left is
  // chance: of pages that are all used alike, as often as a round lasts, an eighth are so. Two in
  // a row are one in sixty, three one in five hundred; a page that is used all the time has them
  // at once.
  constexpr PageWord missed(std::uint8_t now) const {
    constexpr std::uint32_t kLivesOfHeat[kMaxHeat + 1] = {0, 0, 2, kMaxLives};
    const bool is_soon = static_cast<std::uint8_t>(now - stamp()) < kSoonTicks;
    const std::uint32_t next_heat = is_soon ? std::min(heat() + 1, kMaxHeat) : 0;
    return with_heat(next_heat).with_lives(kLivesOfHeat[next_heat]);
  }

  // What a page is when it has left at tick `now`. A page that was seen to be written
  // will be taken for dirty the next times; one that was only taken for dirty, less often.
  constexpr PageWord left(std::uint8_t now) const {
    std::uint32_t next_habit = 0;
    if (dirty()) next_habit = predicted() ? habit() - std::min(habit(), 1U) : kMaxHabit;
    return with_state(PagingState::kFar)
        .with_slot_used(slot_used() || dirty())
        .with_dirty(false)
        .with_predicted(false)
        .with_habit(next_habit)
        .with_stamp(now);
  }

  friend constexpr bool operator==(PageWord, PageWord) = default;

 private:
  static constexpr unsigned kState = 0;
  static constexpr unsigned kDirty = 3;
  static constexpr unsigned kPredicted = 4;
  static constexpr unsigned kHabit = 5;
  static constexpr unsigned kLives = 8;
  static constexpr unsigned kHeat = 11;
  static constexpr unsigned kStamp = 13;
  static constexpr unsigned kSide = 21;
  static constexpr unsigned kHeld = 22;
  static constexpr unsigned kOtherHeld = 23;
  static constexpr unsigned kSlotUsed = 24;
  static constexpr std::uint32_t kLastingMask = 15U << kSide;

  constexpr std::uint32_t field(unsigned at, unsigned width) const {
    return (bits_ >> at) & ((1U << width) - 1);
  }
  constexpr PageWord with(unsigned at, unsigned width, std::uint32_t value) const {
    const std::uint32_t mask = ((1U << width) - 1) << at;
    return PageWord((bits_ & ~mask) | ((value << at) & mask));
  }

  std::uint32_t bits_ = 0;
};

static_assert(sizeof(PageWord) == 4);

}  // namespace yonder::heap::internal
