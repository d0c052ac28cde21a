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
// Why the bytes are never wrong ones: as in page_copies.h. They belong to an entry that was read before
// the read began; whoever takes them holds the page and sees the same entry, less than 255 barriers
// later; so the page has been absent in one slot all the time, and absent pages do not change. If
// it was not, the read may have brought anything, from a slot that others use: the entry differs then.
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

#include "yonder/heap/internal/page_copies.h"
#include "yonder/heap/internal/page_entry.h"
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
  PageEntry entry_;
  std::uint64_t barriers_ = 0;
  std::array<std::byte, kPageBytes> bytes_;
};

class EarlyObjects {
 public:
  static constexpr std::size_t kObjects = 32;

  // Where to read an object of an absent page to, its transfer all set; null: it is coming or here
  // already, or all places that it could have are busy. `barriers`: their number before the entry was read.
  EarlyObject* expect(PointerWord word, PageEntry entry, std::uint64_t barriers) {
    if (places_ == nullptr) places_ = std::make_unique<std::array<EarlyObject, kObjects>>();
    EarlyObject* room = nullptr;
    for (EarlyObject& object : set_of(word)) {
      const auto state = object.state_.load(std::memory_order_acquire);
      if (state != EarlyObject::State::kEmpty && is_of(object, word, entry, barriers)) return nullptr;
      if (state == EarlyObject::State::kComing) continue;
      const bool is_better =
          room == nullptr || state == EarlyObject::State::kEmpty || object.asked_ < room->asked_;
      if (is_better) room = &object;
    }
    if (room == nullptr) return nullptr;
    room->asked_ = ++hints_;
    room->place_ = place_of(word);
    room->entry_ = entry;
    room->barriers_ = barriers;
    room->transfer = {.local = room->bytes_.data(),
                      .bytes = word.bytes(),
                      .offset = std::uint64_t{entry.index()} * kPageBytes + word.place()};
    room->state_.store(EarlyObject::State::kComing, std::memory_order_relaxed);
    return room;
  }

  // The object if it was asked for: coming or here. The caller holds its page, and forgets it afterwards.
  EarlyObject* find(PointerWord word, PageEntry entry, std::uint64_t barriers) {
    if (places_ == nullptr) return nullptr;
    for (EarlyObject& object : set_of(word)) {
      const auto state = object.state_.load(std::memory_order_acquire);
      if (state != EarlyObject::State::kEmpty && is_of(object, word, entry, barriers)) return &object;
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
  static bool is_of(const EarlyObject& object, PointerWord word, PageEntry entry, std::uint64_t barriers) {
    return object.place_ == place_of(word) && object.entry_ == entry &&
           barriers - object.barriers_ < PageCopies::kMaxBarriers && object.transfer.bytes == word.bytes();
  }

  std::unique_ptr<std::array<EarlyObject, kObjects>> places_;
  std::uint32_t hints_ = 0;
};

}  // namespace yonder::heap::internal
