#pragma once
// Objects that were asked for before they are needed, and that will come in alone.
//
// A hint (`prefetch`) on an object of an absent page starts a read of its bytes into a place of the
// thread that gave it. Nothing else happens: the object is where it was, and the pointer may even be
// gone before the bytes are here. A miss that finds them here, or on their way, needs no read of its
// own; so the round trips of several hints overlap.
//
//   place     hint            read ends        miss of this object       miss of another
//   --------  --------------  ---------------  ------------------------  ---------------
//   empty     coming          –                –                         –
//   coming    –               here, or empty   waits, then as here       –
//   here      coming, anew    –                takes the bytes; empty    –
//
// "Anew" if it is another object: the oldest hints are forgotten first, if places are short. One that
// is coming is never given away, since its bytes are still to be written.
//
// Why the bytes are never wrong ones: they belong to a stay of the page (absent_stay.h) that was seen
// before the read began, and whoever takes them holds the page and sees that it lasts. If it has ended
// meanwhile, the read may have brought anything, from a slot that others use; then nobody takes it.
// One absent page grows: the one that is just being filled on the node. But no pointer says an object
// of it that is not yet written, and who gives the hint holds the page the pointer says.
//
// Concurrency: of its thread; the end of a read may be told in any. Lifetime: with the thread's
// state; settle() before it ends. Memory is taken at the first hint.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "yonder/heap/internal/absent_stay.h"
#include "yonder/heap/pointer_word.h"
#include "yonder/heap/slot_store.h"

namespace yonder::heap::internal {

class EarlyObject final : public AsyncRead {
 public:
  // acquire: pairs with on_done(); the bytes are complete, or the place is free.
  bool is_coming() const { return state_.load(std::memory_order_acquire) == State::kComing; }
  bool is_here() const { return state_.load(std::memory_order_acquire) == State::kHere; }
  const std::byte* bytes() const { return bytes_.data(); }
  // Requires that it is not coming, or that its read has not begun.
  void forget() { state_.store(State::kEmpty, std::memory_order_relaxed); }

 private:
  friend class EarlyObjects;
  enum class State : std::uint8_t { kEmpty, kComing, kHere };

  void on_done(const Result<void>& result) override {
    // release: see is_coming(). The last access here: the owner may end now.
    state_.store(result ? State::kHere : State::kEmpty, std::memory_order_release);
  }

  std::atomic<State> state_{State::kEmpty};
  std::uint32_t asked_ = 0;  // When: in hints.
  std::uint64_t place_ = 0;  // Of the object: its page and what is before it there.
  AbsentStay stay_;
  std::array<std::byte, kPageBytes> bytes_;
};

class EarlyObjects {
 public:
  static constexpr std::size_t kObjects = 32;

  // Where to read an object of an absent page to, its transfer all set; null: it is coming or here
  // already, or all places that it could have are busy. `now.barriers`: before the entry was read.
  EarlyObject* expect(PointerWord word, AbsentStay now) {
    if (places_ == nullptr) places_ = std::make_unique<std::array<EarlyObject, kObjects>>();
    if (find(word, now) != nullptr) return nullptr;
    EarlyObject* const room = oldest_in(set_of(word));
    if (room == nullptr) return nullptr;
    room->asked_ = ++hints_;
    room->place_ = place_of(word);
    room->stay_ = now;
    room->transfer = {.local = room->bytes_.data(),
                      .bytes = word.bytes(),
                      .offset = std::uint64_t{now.entry.index()} * kPageBytes + word.place()};
    room->state_.store(EarlyObject::State::kComing, std::memory_order_relaxed);
    return room;
  }

  // The object if it was asked for: coming or here. The caller holds its page, and forgets it afterwards.
  EarlyObject* find(PointerWord word, AbsentStay now) {
    if (places_ == nullptr) return nullptr;
    for (EarlyObject& object : set_of(word)) {
      const bool is_it = object.place_ == place_of(word) && object.transfer.bytes == word.bytes() &&
                         object.stay_.is_still(now.entry, now.barriers);
      if (is_it && (object.is_coming() || object.is_here())) return &object;
    }
    return nullptr;
  }

  // Waits until nothing is coming any more: as long as reads may take.
  void settle(SlotStore& store) {
    if (places_ == nullptr) return;
    for (const EarlyObject& object : *places_) {
      while (object.is_coming()) store.poll();
    }
  }

 private:
  static constexpr std::size_t kWays = 4;

  static std::uint64_t place_of(PointerWord word) {
    return std::uint64_t{word.page()} * kPageBytes + word.place();
  }
  std::span<EarlyObject, kWays> set_of(PointerWord word) {
    const std::uint64_t spread = place_of(word) * 0x9e37'79b9'7f4a'7c15;
    return std::span(*places_).subspan((spread >> 32) % (kObjects / kWays) * kWays).first<kWays>();
  }
  // An empty one, or the oldest that is here.
  static EarlyObject* oldest_in(std::span<EarlyObject, kWays> set) {
    EarlyObject* oldest = nullptr;
    for (EarlyObject& object : set) {
      if (object.is_coming()) continue;
      if (!object.is_here()) return &object;
      if (oldest == nullptr || object.asked_ < oldest->asked_) oldest = &object;
    }
    return oldest;
  }

  std::unique_ptr<std::array<EarlyObject, kObjects>> places_;
  std::uint32_t hints_ = 0;
};

}  // namespace yonder::heap::internal
