#pragma once
// Frame: what the node knows about one frame in use, beside the memory itself.
//
// Which slots are free, which block gets the objects of which slots, and who may
// hand slots out:
//
//   state       who takes slots                     how it gets there
//   kOwned      the one thread whose bin has it     taken by a thread
//   kShared     whoever holds the class's mutex     the class's frame for rare threads
//   kFull       nobody; nobody looks at it          its thread used it up
//   kAvailable  nobody yet; in the class's list     enough of it was freed
//   kEmpty      nobody yet; kept for the next need  all of it was freed
//   kSeized     the compactor                       collected
//   kDraining   nobody; objects are leaving it      source of a move
//
// The struct is kept small, and what its class says is not repeated in it: there is
// one for every few pages.
//
// I1  A slot's free bit is set iff its header is free and no bin holds the slot,
//     except between a free's two steps (header, then bit): so a slot whose header
//     is free and whose bit is not set is about to be set.
// I2  free_count is the number of set bits.
// I3  While a frame is kDraining, free and moved slots add up: it may be retired
//     when free_count + moved_count == slots, and then nobody is between the two
//     steps of I1 in it.
// I4  blocks[g] is an open block that maps here, for every group g, until the
//     block moves away (then 0). Its objects sit in the slots they were born in.
//
// Concurrency: per field, below. Lifetime: made by create(), deleted by the
// reclaimer when no thread can hold a pointer to it any more.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "yonder/base/check.h"
#include "yonder/node/header_word.h"
#include "yonder/node/object_ptr.h"
#include "yonder/node/size_class.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::node::internal {

using sync::SpinGuard;
using sync::SpinLock;

enum class FrameState : std::uint8_t { kOwned, kShared, kFull, kAvailable, kEmpty, kSeized, kDraining };

struct Frame;
struct FrameDeleter {
  void operator()(Frame* frame) const;
};
using FramePtr = std::unique_ptr<Frame, FrameDeleter>;

struct Frame {
  // All slots free, state kSeized. One allocation holds the frame and its arrays.
  // The shape outlives the frame, except that of a span, which is copied.
  static FramePtr create(FrameId id, std::byte* memory, std::uint8_t size_class, const SizeClass& shape);
  // Bytes of that allocation.
  static std::size_t footprint(std::uint8_t size_class, const SizeClass& shape);

  std::uint32_t slots() const { return shape->slots; }
  std::uint64_t slot_bytes() const { return shape->slot_bytes; }
  std::uint64_t frame_bytes() const { return shape->frame_bytes; }
  // Free slots from which on a used-up frame is offered again: a thread that takes
  // it should not be back at once.
  std::uint32_t worth_listing() const { return slots() < 32 ? (slots() + 1) / 2 : slots() / 4; }

  std::byte* slot(std::uint32_t index) const { return memory + std::uint64_t{index} * slot_bytes(); }
  std::atomic_ref<std::uint64_t> header(std::uint32_t index) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(slot(index)));
  }
  HeaderWord load_header(std::uint32_t index) const {
    return HeaderWord(header(index).load(std::memory_order_acquire));
  }
  // The block that new objects of this slot call home; 0 if it has moved away.
  BlockId block_of(std::uint32_t slot_index) const {
    return BlockId(blocks()[slot_index >> shape->block_shift].load(std::memory_order_relaxed));
  }
  // The same for who knows the class.
  BlockId block_of(std::uint32_t slot_index, std::uint32_t block_shift, std::size_t offset) const {
    const auto* at = reinterpret_cast<const std::byte*>(this) + offset;
    const auto* first = reinterpret_cast<const std::atomic<std::uint32_t>*>(at);
    return BlockId(first[slot_index >> block_shift].load(std::memory_order_relaxed));
  }
  // Where blocks() begin, from the start of the struct.
  static constexpr std::size_t blocks_offset(const SizeClass& shape);
  // One block per group of slots. Set before the frame is used; only the compactor
  // that drains it changes it. relaxed everywhere: whoever asks holds an object in
  // the group, whose block cannot have left (I4), or compares with a home that is
  // not this block.
  std::span<std::atomic<std::uint32_t>> blocks() const {
    auto* words = const_cast<Frame*>(this)->array();
    return {reinterpret_cast<std::atomic<std::uint32_t>*>(words + word_count()), shape->blocks};
  }
  std::uint32_t word_count() const { return (slots() + 63) / 64; }
  std::span<std::uint64_t> free_bits() YONDER_REQUIRES(lock) { return {array(), word_count()}; }

  // The compactor has it: it gets no new object. relaxed: whoever may still allocate
  // from it is waited for before the state changes (thread_record.h, I1, I3).
  bool is_compacted() const {
    const FrameState now = state.load(std::memory_order_relaxed);
    return now == FrameState::kSeized || now == FrameState::kDraining;
  }

  // Marks a slot free.
  void put(std::uint32_t index) YONDER_REQUIRES(lock) {
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    YONDER_DCHECK((free_bits()[index / 64] & bit) == 0, "a slot is freed once");
    free_bits()[index / 64] |= bit;
    ++free_count;
  }
  // Takes one particular slot, if it is free.
  bool try_take(std::uint32_t index) YONDER_REQUIRES(lock);
  // Takes the first free slot from `start` on, in a circle; none if the frame is full.
  std::optional<std::uint32_t> take_near(std::uint32_t start) YONDER_REQUIRES(lock);
  // Takes all free slots of the first word that has any, from `start` on in a
  // circle: the slots 64 × word + the bits set. 0 if the frame is full.
  std::uint64_t take_word(std::uint32_t start, std::uint32_t& word) YONDER_REQUIRES(lock);
  // Gives slots back that take_word() gave.
  void put_word(std::uint32_t word, std::uint64_t bits) YONDER_REQUIRES(lock);

  // Constant.
  std::byte* const memory;
  const SizeClass* const shape;
  const FrameId id;
  const std::uint8_t size_class;

  SpinLock lock;
  std::atomic<FrameState> state{FrameState::kSeized};  // Changed under the lock.
  std::uint32_t free_count YONDER_GUARDED_BY(lock);
  std::uint32_t moved_count YONDER_GUARDED_BY(lock) = 0;

  // The class pool's: positions in its lists.
  std::uint32_t position = 0;
  std::uint32_t listed_position = 0;

 private:
  Frame(FrameId id, std::byte* memory, std::uint8_t size_class, const SizeClass& shape);
  ~Frame() = default;
  friend struct FrameDeleter;
  // The arrays behind the struct: free bits, then the groups' blocks.
  std::uint64_t* array() { return reinterpret_cast<std::uint64_t*>(this + 1); }
};
static_assert(sizeof(Frame) == 40);

constexpr std::size_t Frame::blocks_offset(const SizeClass& shape) {
  return sizeof(Frame) + std::size_t{(shape.slots + 63) / 64} * sizeof(std::uint64_t);
}

}  // namespace yonder::node::internal
