#pragma once
// HeapCore: the parts of a heap, and the few steps that several of them share.
//
// Concurrency: the parts' own; what is constant after creation says so.
// Lifetime: owned by the Heap; destroyed after all threads are unregistered.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "yonder/node/block_table.h"
#include "yonder/node/block_views.h"
#include "yonder/node/frame_store.h"
#include "yonder/node/heap.h"
#include "yonder/node/internal/class_pool.h"
#include "yonder/node/internal/displaced_index.h"
#include "yonder/node/internal/frame.h"
#include "yonder/node/internal/node_record.h"
#include "yonder/node/internal/owner_desks.h"
#include "yonder/node/internal/reclaimer.h"
#include "yonder/node/internal/thread_registry.h"
#include "yonder/node/internal/write_journal.h"
#include "yonder/node/slot_layout.h"
#include "yonder/os/mapping.h"

namespace yonder::node::internal {

// What every operation asks about a class, close together. A class that does not
// exist has room for nothing.
struct ClassFacts {
  std::uint32_t capacity = 0;  // Payload bytes of a slot.
  std::uint32_t slots = 0;     // Per frame.
  std::uint32_t slot_bytes = 0;
  std::uint32_t block_shift = 0;
  std::uint32_t blocks_offset = 0;  // Of the blocks in a Frame.
};

// A span is a frame of its own with one slot and one block.
inline SizeClass span_shape(std::uint32_t bytes) {
  return {
      .slot_bytes = bytes, .frame_bytes = bytes, .slots = 1, .block_slots = 1, .block_shift = 0, .blocks = 1};
}

struct HeapCore {
  HeapCore(const Clock& clock, const HeapOptions& options, SizeClasses classes,
           std::unique_ptr<FrameStore> store, std::unique_ptr<BlockTable> table, os::Mapping map);
  ~HeapCore();

  // Constant.
  const Clock& clock;
  const HeapOptions options;
  const SizeClasses classes;
  std::vector<SlotLayout> layouts;                            // Per class.
  std::array<ClassFacts, std::size_t{kSpanClass} + 1> facts;  // By what a pointer says its class is.
  // By how much the id of a slot's next object differs from that of the last; the same
  // in all processes that go on with a node.
  std::uint16_t id_step;
  std::uint64_t life = 0;  // Of the objects: another one if they were lost. Set once.
  LifeTag tag;             // Its tag, in every pointer.

  std::unique_ptr<NodeRecord> record;     // Both null unless there is a keeper; set once.
  std::unique_ptr<WriteJournal> journal;  // Outlives the threads, which write it.
  const std::unique_ptr<FrameStore> store;
  std::unique_ptr<BlockViews> views;  // Null unless Remap::kMmap; set once. Outlives the table.
  const std::unique_ptr<BlockTable> table;
  os::Mapping map_memory;
  // The frame map: frame id → Frame, null if no frame starts there.
  std::atomic<Frame*>* const map;
  ThreadRegistry threads;
  Reclaimer reclaimer;
  DisplacedIndex displaced;                        // Empty unless Correction::kIndex.
  const std::unique_ptr<OwnerDesks> desks;         // Null unless Correction::kOwner.
  std::vector<std::unique_ptr<ClassPool>> pools;   // Per class.
  std::unique_ptr<Compactor> compactor;            // Set once, by the heap.
  std::atomic<std::uint64_t> frame_footprints{0};  // Of the frames in the map; a statistic.

  // The frame that starts at `id`, or null. Use it inside a Section, or holding the
  // mutex of its class's pool.
  Frame* frame_at(FrameId id) const { return map[id.value()].load(std::memory_order_acquire); }
  SlotLayout layout_of(const Frame& frame) const {
    return SlotLayout(classes.validator(), frame.slot_bytes());
  }

  // Before the heap is used. kOutOfMemory.
  Result<void> add_views();
  void set_life(std::uint64_t of_objects) {
    life = of_objects;
    tag = life_tag(of_objects);
  }
  void set_id_step(std::uint64_t seed) { id_step = static_cast<std::uint16_t>(Prng(seed)() | 1); }
  // Gives each thread its lane.
  void set_journal(std::unique_ptr<WriteJournal> made);
  // Where readers find the slots of a block whose table entry they have.
  std::byte* block_address(BlockId block, BlockEntry entry) const {
    if (views != nullptr && entry.size_class() != kSpanClass) [[unlikely]]
      return views->address(block);
    return store->address(entry.frame());
  }

  // A new frame with its blocks, entered in the map; state kSeized.
  // kOutOfMemory, kResourceExhausted.
  Result<Frame*> make_frame(std::uint8_t size_class, const SizeClass& shape);
  // The same for a frame that has objects: one block of it, and its place in the map.
  Result<BlockId> open_block(FrameId frame, std::uint32_t group, std::uint8_t size_class,
                             const SizeClass& shape);
  void enter_frame(Frame& frame);
  // Makes a frame without objects unfindable: out of the map, its blocks closed.
  FramePtr unmake_frame(Frame& frame);

  // Puts a new object into a free slot that the caller has taken.
  ObjectPtr place(FreeSlot slot, std::uint8_t size_class, std::uint32_t bytes, Prng& random) const;
  // The id of a new object: its low bits say the slot within its block, so that the
  // ids of a block differ. The rest begins at random in memory never used before and
  // then steps from the slot's last id, `old`, by an odd number: no value comes
  // again before all others were used, which a draw could not promise.
  ObjectId new_id(HeaderWord old, std::uint32_t slot, std::uint32_t block_shift, Prng& random) const;

  // Memory beside the frames: what is kept per frame, the frame map's words for the
  // units in use, and the block table's words for them or, if that is more, for the
  // ids in use.
  std::uint64_t metadata_bytes() const;

  // An object is about to be in another slot than its pointers say.
  void note_displaced(BlockId home, ObjectId id, std::uint32_t slot);
  // The slot of a displaced object, as far as the strategy of correction knows it.
  std::optional<std::uint32_t> displaced_slot(const ThreadRecord& asker, ObjectPtr object) const;
  // An object that had left its birth frame is gone, or has a new home.
  void forget_alien(HeaderWord word);
};

inline ObjectId HeapCore::new_id(HeaderWord old, std::uint32_t slot, std::uint32_t block_shift,
                                 Prng& random) const {
  const std::uint32_t low = slot & ((1u << block_shift) - 1);
  std::uint32_t high = old.id().value() >> block_shift;
  if (old.never_used()) [[unlikely]]
    high = static_cast<std::uint32_t>(random());
  for (;;) {
    high += id_step;
    const auto id = static_cast<std::uint16_t>(high << block_shift | low);
    if (id != 0) [[likely]]
      return ObjectId(id);
  }
}

inline ObjectPtr HeapCore::place(FreeSlot slot, std::uint8_t size_class, std::uint32_t bytes,
                                 Prng& random) const {
  const std::atomic_ref<std::uint64_t> header(*reinterpret_cast<std::uint64_t*>(slot.memory()));
  // relaxed: the slot is ours since we took it, which came with its frame's lock.
  const HeaderWord old(header.load(std::memory_order_relaxed));
  YONDER_DCHECK(old.is_free(), "a free slot has a free header");
  const std::uint32_t shift = facts[size_class].block_shift;  // 0 for a span.
  HeaderWord word = old.reused_by(slot.home(), new_id(old, slot.index(), shift, random));
  if (SlotLayout::starts_blank(classes.validator(), old.never_used())) [[likely]]
    word = word.as_blank();
  // release: pairs with the acquire of whoever reads the header.
  header.store(word.bits(), std::memory_order_release);
  return ObjectPtr({.home = word.home(),
                    .id = word.id(),
                    .slot = slot.index(),
                    .size = bytes,
                    .size_class = size_class,
                    .node = options.node,
                    .life = tag});
}

}  // namespace yonder::node::internal
