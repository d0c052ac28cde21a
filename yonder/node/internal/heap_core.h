#pragma once
// HeapCore: the parts of a heap, and the few steps that several of them share.
//
// Concurrency: the parts' own; what is constant after creation says so.
// Lifetime: owned by the Heap; destroyed after all threads are unregistered.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/node/block_table.h"
#include "yonder/node/frame_store.h"
#include "yonder/node/heap.h"
#include "yonder/node/internal/class_pool.h"
#include "yonder/node/internal/displaced_index.h"
#include "yonder/node/internal/frame.h"
#include "yonder/node/internal/reclaimer.h"
#include "yonder/node/internal/thread_registry.h"
#include "yonder/node/slot_layout.h"
#include "yonder/os/mapping.h"

namespace yonder::node::internal {

struct HeapCore {
  HeapCore(const Clock& clock, const HeapOptions& options, SizeClasses classes,
           std::unique_ptr<FrameStore> store, std::unique_ptr<BlockTable> table, os::Mapping map);
  ~HeapCore();

  // Constant.
  const Clock& clock;
  const HeapOptions options;
  const SizeClasses classes;
  std::vector<SlotLayout> layouts;  // Per class.

  const std::unique_ptr<FrameStore> store;
  const std::unique_ptr<BlockTable> table;
  os::Mapping map_memory;
  // The frame map: frame id → Frame, null if no frame starts there.
  std::atomic<Frame*>* const map;
  ThreadRegistry threads;
  Reclaimer reclaimer;
  DisplacedIndex displaced;
  std::vector<std::unique_ptr<ClassPool>> pools;  // Per class.
  std::unique_ptr<Compactor> compactor;           // Set once, by the heap.

  // The frame that starts at `id`, or null. Use it inside a Section, or holding the
  // mutex of its class's pool.
  Frame* frame_at(FrameId id) const { return map[id.value()].load(std::memory_order_acquire); }
  SlotLayout layout_of(const Frame& frame) const { return SlotLayout(classes.validator(), frame.slot_bytes); }

  // A new frame with its blocks, entered in the map; state kSeized.
  // kOutOfMemory, kResourceExhausted.
  Result<Frame*> make_frame(std::uint8_t size_class, const SizeClass& shape);
  // Makes a frame without objects unfindable: out of the map, its blocks closed.
  FramePtr unmake_frame(Frame& frame);

  // Puts a new object into a free slot that the caller has taken. Not inline, so that
  // the pointer comes back in registers: built in memory it costs a stall.
  ObjectPtr place(Frame& frame, std::uint32_t slot, std::uint32_t bytes, Prng& random) const;
  // The id of a new object: its low bits say the slot within its block, so that
  // the ids of a block differ; the rest is random and not the predecessor's.
  static ObjectId new_id(const Frame& frame, std::uint32_t slot, ObjectId old, Prng& random);

  // An object that had left its birth frame is gone, or has a new home.
  void forget_alien(HeaderWord word);
};

}  // namespace yonder::node::internal
