#pragma once
// The block table: which frame holds the objects of a block, readable by everybody.
//
// One 8-byte word per block id, in a memfd of its own that is registered with the
// fabric read-only. Local code and `shm` readers translate with one load; RDMA
// clients cache words and read one again when an object's identity does not
// match. Compaction switches a block by storing one word.
//
//   bit  0       1          27       35            64
//       | valid | frame id | class  | generation  |
//
// The generation counts the switches and reuses of the id, so that a cached word
// can be recognised as old although frame and class are equal again.
//
// Concurrency: lookup() from any thread, one-sided readers included. A block's
// word is changed by one thread at a time: whoever created it, or the compactor
// that owns its frame. Ids are taken and returned under a mutex.
// Lifetime: the memory stays mapped until the table is destroyed.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
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
    return static_cast<std::uint32_t>(bits_ >> (1 + kFrameIdBits + kClassBits));
  }
  friend constexpr bool operator==(BlockEntry, BlockEntry) = default;

 private:
  static constexpr std::uint32_t kGenerationMask = (std::uint32_t{1} << 29) - 1;
  std::uint64_t bits_ = 0;
};

class BlockTable {
 public:
  // `capacity` ids, at most 2^26. kInvalidArgument, kOutOfMemory.
  static Result<std::unique_ptr<BlockTable>> create(std::uint32_t capacity);

  // An id nobody uses, with no valid entry yet. kResourceExhausted.
  Result<BlockId> take();
  // The id may be given out again. Its entry becomes invalid first.
  void give_back(BlockId block);

  // acquire: pairs with the release in publish(); what the new frame held at
  // the switch is visible. An id beyond the table has no valid entry.
  BlockEntry lookup(BlockId block) const {
    if (block.value() >= capacity_) return {};
    return BlockEntry(words_[block.value()].load(std::memory_order_acquire));
  }
  // Maps `block` to `frame` from now on.
  void publish(BlockId block, FrameId frame, std::uint8_t size_class);

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t in_use() const;
  const os::Memfd& memfd() const { return memfd_; }
  std::span<std::byte> memory() const { return mapping_.bytes(); }

 private:
  BlockTable(std::uint32_t capacity, os::Memfd memfd, os::Mapping mapping);

  const std::uint32_t capacity_;
  os::Memfd memfd_;
  os::Mapping mapping_;
  std::atomic<std::uint64_t>* const words_;

  mutable sync::Mutex mutex_;
  std::vector<BlockId> returned_ YONDER_GUARDED_BY(mutex_);
  std::uint32_t never_used_ YONDER_GUARDED_BY(mutex_) = 1;  // Id 0 is the null pointer's.
};

}  // namespace yonder::node
