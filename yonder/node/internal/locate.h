#pragma once
// Locate: from a pointer to the slot where its object is now.
//
// The table says in which frame the home block is; the pointer's slot is tried
// first. If another object is there, the object was displaced: its new slot is
// found in the headers of the frame; or in the index of displaced objects, or with its
// block's owner, and then in the headers if they do not know it.
//
// While the block is being moved its objects are in two frames: those that have
// left are found through the *moved* words they left behind. That is safe because
//   L1  moved words are followed only inside a Section, in a frame the table named
//       in this section, and the frame they name is not retired in this section:
//       it is a destination of the run that moved them, which retires sources
//       only, and the next run begins by waiting for all sections that could have
//       seen these words.
//   L2  an object that is in the frame when its scan begins is met by the scan:
//       it moves at most once in a run, and its slot then holds the moved word.
// So if the scan fails and the table's entry has not changed, there is no object.
//
// Concurrency: inside a Section. Lifetime: a Place is valid within the section.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/node/internal/heap_core.h"

namespace yonder::node::internal {

struct Place {
  Frame* frame = nullptr;
  std::uint32_t slot = 0;
  HeaderWord word;  // Names the object, in any state but moved.
};

// Checks what can be checked without looking: kInvalidArgument, kForeignPointer,
// kNoSuchObject (a class that does not exist, a size that does not fit it).
Result<void> check_pointer(const HeapCore& core, ObjectPtr object);

// The same without saying what is wrong, for slot objects: the common way. An id of
// 0 passes; no object has it.
inline bool is_plausible(const HeapCore& core, ObjectPtr object) {
  return object.is_of(core.options.node, core.tag) &&
         object.size() - 1 < core.facts[object.size_class()].capacity;
}

// The object's slot if it is where its pointer says, in one piece of memory that the
// block table names now: null says nothing. `entry` is the table's word.
inline std::byte* slot_at_hint(const HeapCore& core, ObjectPtr object, BlockEntry& entry) {
  if (!is_plausible(core, object)) return nullptr;
  entry = core.table->lookup(object.home());
  const ClassFacts& facts = core.facts[object.size_class()];
  if (!entry.valid() || entry.size_class() != object.size_class() || object.slot() >= facts.slots) {
    return nullptr;
  }
  return core.store->address(entry.frame()) + std::uint64_t{object.slot()} * facts.slot_bytes;
}

// If the object is where its pointer says and nobody holds it: takes it (state
// writing). False says nothing.
inline bool try_lock_at_hint(const HeapCore& core, ObjectPtr object, Place& place) {
  BlockEntry entry;
  std::byte* slot = slot_at_hint(core, object, entry);
  if (slot == nullptr) return false;
  const std::atomic_ref<std::uint64_t> header(*reinterpret_cast<std::uint64_t*>(slot));
  // relaxed: the exchange decides.
  const HeaderWord word(header.load(std::memory_order_relaxed));
  if (!word.names(object.home(), object.id()) || word.state() != SlotState::kLive) return false;
  // The frame is the map's while a block maps to it and this section lasts.
  Frame* frame = core.frame_at(entry.frame());
  if (frame == nullptr) return false;
  std::uint64_t expected = word.bits();
  // acquire: pairs with the release that left this word; the payload is complete.
  if (!header.compare_exchange_strong(expected, word.with_state(SlotState::kWriting).bits(),
                                      std::memory_order_acquire, std::memory_order_relaxed)) {
    return false;
  }
  place = {.frame = frame, .slot = object.slot(), .word = word};
  return true;
}

// On behalf of thread `asker`. kNoSuchObject. Requires check_pointer().
Result<Place> locate(const HeapCore& core, const ThreadRecord& asker, ObjectPtr object);

}  // namespace yonder::node::internal
