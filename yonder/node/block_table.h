#pragma once
// The block table: which frame holds the objects of a block, readable by everybody.
//
// One 8-byte word per block id, in a memfd of its own that is registered with the
// fabric read-only. Local code and `shm` readers translate with one load; RDMA
// clients cache words and read one again when an object's identity does not
// match. Compaction switches a block by storing one word.
//
//   bit  0       1          27       35           63     64
//       | valid | frame id | class  | generation | open |
//
// The generation counts the switches and reuses of the id, so that a cached word
// can be recognised as old although frame and class are equal again. Open is what the
// census below says; it stands here too, because the census ends with the process and
// the table need not (internal/adoption.h).
//
// Natural ids: every unit of memory has two, and a frame's block g takes the id
// 2 × frame id + g if it is one of its own units' and free. Frames that the node chose
// itself have no more blocks than that.
// Then the frame of a block that has not moved can be guessed from its id, and a
// reader fetches the object while the table's word is still on its way (guess()).
// Blocks whose natural id is still in use get any other.
//
// Resting ids: where readers go by the id alone (block_views.h), an id that was given back
// is not used again for `rest`, so that a reader which saw the block's class a moment ago
// never meets slots of another size within one read.
//
// Beside the table, private to the node, stands how many objects call a block
// home from elsewhere:
//   census of an id   meaning
//   0                 unused
//   open + 1          the block is of the frame where it was born
//   open + 1 + n      … and n objects have left for the block's next frame
//   1 + n             closed: n objects left, all in the frame the table names
//   1                 closed and empty: whoever brought it there gives the id back
//
// Concurrency: lookup() from any thread, one-sided readers included. A block's
// word is changed by one thread at a time: whoever created it, or the compactor
// that moves it. The census is atomic.
// Lifetime: the memory stays mapped until the table is destroyed.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/node/header_word.h"
#include "yonder/node/object_ptr.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/sync/mutex.h"

namespace yonder::node {

class BlockEntry {
 public:
  constexpr BlockEntry() = default;  // Not valid.
  constexpr explicit BlockEntry(std::uint64_t bits) : bits_(bits) {}
  constexpr BlockEntry(FrameId frame, std::uint8_t size_class, std::uint32_t generation)
      : bits_(1 | std::uint64_t{frame.value()} << 1 | std::uint64_t{size_class} << (1 + kFrameIdBits) |
              std::uint64_t{generation & kGenerationMask} << (1 + kFrameIdBits + kClassBits)) {}

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr bool valid() const { return (bits_ & 1) != 0; }
  constexpr FrameId frame() const {
    return FrameId(static_cast<std::uint32_t>(bits_ >> 1) & ((std::uint32_t{1} << kFrameIdBits) - 1));
  }
  constexpr std::uint8_t size_class() const { return static_cast<std::uint8_t>(bits_ >> (1 + kFrameIdBits)); }
  constexpr std::uint32_t generation() const {
    return static_cast<std::uint32_t>(bits_ >> (1 + kFrameIdBits + kClassBits)) & kGenerationMask;
  }
  constexpr bool is_open() const { return (bits_ & kOpen) != 0; }
  constexpr BlockEntry as_open() const { return BlockEntry(bits_ | kOpen); }
  friend constexpr bool operator==(BlockEntry, BlockEntry) = default;

 private:
  static constexpr std::uint32_t kGenerationMask = (std::uint32_t{1} << 28) - 1;
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 63;
  static_assert(1 + kFrameIdBits + kClassBits + 28 + 1 == 64);
  std::uint64_t bits_ = 0;
};

// Somebody who publishes the same in another form.
class BlockMirror {
 public:
  virtual ~BlockMirror() = default;
  // A new block is in this frame.
  virtual Result<void> place(BlockId block, FrameId frame, std::uint8_t size_class) = 0;
  // The block is in another frame from now on. After an error readers see the old frame,
  // the new one, or either: both must stay until it is called again and succeeds.
  virtual Result<void> move(BlockId block, FrameId frame, std::uint8_t size_class) = 0;
  // The id is not in use any more, or place() has failed.
  virtual void remove(BlockId block, std::uint8_t size_class) = 0;
};

class BlockTable {
 public:
  static constexpr std::uint32_t kNaturalPerUnit = 2;
  static constexpr std::uint32_t kNotNatural = UINT32_MAX;
  static constexpr std::uint32_t kBytesPerId = 8 + 2;  // The word, and its place in the census.

  struct Options {
    std::uint32_t natural = 0;  // Ids below this are given only as natural ids.
    std::uint32_t spare = 2;    // Further ids. Together at most 2^26.
    // How long a spare id that was given back is not used, by this clock; null: at once.
    const Clock* clock = nullptr;
    Duration rest{0};
  };
  // kInvalidArgument, kOutOfMemory.
  static Result<std::unique_ptr<BlockTable>> create(const Options& options);

  // The table that another process left in `memfd`, made with the same options. Its ids
  // count as unused until they are restored. kCorrupt: a file of another size.
  static Result<std::unique_ptr<BlockTable>> adopt(const Options& options, os::Memfd memfd);

  // An id nobody uses, open, mapped to `frame` from now on. `group` says which of
  // the frame's blocks it is; kNotNatural: none with a natural id. kResourceExhausted.
  Result<BlockId> open(FrameId frame, std::uint32_t group, std::uint8_t size_class);
  // Tells `mirror`, which outlives the table, of all that happens from now on. Before
  // the first block is opened.
  void set_mirror(BlockMirror* mirror) { mirror_ = mirror; }
  // Maps `block` to another frame, where it is not open any more. The caller moves the
  // block. Errors are the mirror's: the table says what it said, and the caller keeps both
  // frames and tries again later.
  Result<void> publish(BlockId block, FrameId frame, std::uint8_t size_class);

  // acquire: pairs with the release in publish(); what the new frame held at
  // the switch is visible. An id beyond the table has no valid entry.
  BlockEntry lookup(BlockId block) const {
    if (block.value() >= capacity_) [[unlikely]]
      return {};
    return BlockEntry(words_[block.value()].load(std::memory_order_acquire));
  }
  // The frame of a block that never moved and has its natural id: a hint. `group`
  // says which of the frame's blocks it is: the object's slot / the class's block_slots.
  static FrameId guess(BlockId block, std::uint32_t group) {
    return FrameId((block.value() - group) / kNaturalPerUnit);
  }

  // The census. An object of an open block leaves its birth frame:
  void one_left(BlockId block);
  // An object that had left is gone, or has another home now. Gives the id back
  // if it was the last of a closed block.
  void one_gone(BlockId block);
  // The block gets no more objects. Gives the id back if it has none.
  void close(BlockId block);
  // Keeps a block from being given back until one_gone(); false if it is unused or
  // has no objects any more. Look afterwards whether it is the block you meant: the
  // id may be in its next use.
  bool try_hold(BlockId block);

  // After adopt(), before the first open(): the entry is valid, and the census becomes
  // open, or closed with `away` objects. kResourceExhausted: the mirror has no room.
  Result<void> restore(BlockId block, std::uint32_t away);
  // … the entry is not valid any more.
  void discard(BlockId block);
  // … everything that is in use is restored.
  void finish_restoring();
  Options options() const {
    return {.natural = natural_, .spare = capacity_ - natural_, .clock = clock_, .rest = rest_};
  }

  // What the census says, for checks: see the table above.
  bool is_open(BlockId block) const { return (census(block) & kOpen) != 0; }
  std::uint32_t away_count(BlockId block) const;
  std::uint32_t in_use() const { return in_use_.load(std::memory_order_relaxed); }

  std::uint32_t capacity() const { return capacity_; }
  const os::Memfd& memfd() const { return memfd_; }
  std::span<std::byte> memory() const { return mapping_.bytes(); }

 private:
  using Census = std::uint16_t;
  static constexpr Census kOpen = 0x8000;
  static_assert(kBytesPerId == sizeof(std::uint64_t) + sizeof(Census));

  BlockTable(const Options& options, os::Memfd memfd, os::Mapping mapping, os::Mapping census);
  Census census(BlockId block) const { return census_[block.value()].load(std::memory_order_acquire); }
  bool try_take(std::uint32_t id);
  Result<BlockId> take_spare();
  void give_back(BlockId block);
  // The entry that follows the present one.
  BlockEntry next_entry(BlockId block, FrameId frame, std::uint8_t size_class) const;
  void store_entry(BlockId block, BlockEntry entry);

  const std::uint32_t natural_;
  const std::uint32_t capacity_;
  os::Memfd memfd_;
  os::Mapping mapping_;
  os::Mapping census_mapping_;
  std::atomic<std::uint64_t>* const words_;
  std::atomic<Census>* const census_;
  std::atomic<std::uint32_t> in_use_{0};
  BlockMirror* mirror_ = nullptr;

  const Clock* const clock_;
  const Duration rest_;

  struct Returned {
    std::uint32_t id;
    Instant usable;
  };
  Instant now() const { return clock_ == nullptr ? Instant() : clock_->now(); }

  mutable sync::Mutex mutex_;
  std::deque<Returned> returned_spares_ YONDER_GUARDED_BY(mutex_);  // Oldest first.
  std::uint32_t next_spare_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::node
