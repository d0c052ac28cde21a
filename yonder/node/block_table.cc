#include "yonder/node/block_table.h"

#include "yonder/base/check.h"

namespace yonder::node {

static_assert(sizeof(std::atomic<std::uint64_t>) == 8 && std::atomic<std::uint64_t>::is_always_lock_free);

Result<std::unique_ptr<BlockTable>> BlockTable::create(std::uint32_t capacity) {
  if (capacity < 2 || capacity > (std::uint32_t{1} << kBlockIdBits)) {
    return fail(ErrorCode::kInvalidArgument, "block table capacity", capacity);
  }
  YONDER_TRY(memfd, os::Memfd::create({.name = "yonder-blocks", .size = std::size_t{capacity} * 8}));
  YONDER_TRY(mapping, os::Mapping::of_file(
                          memfd.fd(), {.bytes = memfd.size(), .protection = os::Protection::kReadWrite}));
  return std::unique_ptr<BlockTable>(new BlockTable(capacity, std::move(memfd), std::move(mapping)));
}

// A fresh memfd is zero: every word is an entry that is not valid. The words
// are implicitly-created objects of the mapping.
BlockTable::BlockTable(std::uint32_t capacity, os::Memfd memfd, os::Mapping mapping)
    : capacity_(capacity),
      memfd_(std::move(memfd)),
      mapping_(std::move(mapping)),
      words_(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data())) {}

Result<BlockId> BlockTable::take() {
  sync::LockGuard lock(mutex_);
  if (!returned_.empty()) {
    const BlockId block = returned_.back();
    returned_.pop_back();
    return block;
  }
  if (never_used_ == capacity_) return fail(ErrorCode::kResourceExhausted, "take a block id", capacity_);
  return BlockId(never_used_++);
}

void BlockTable::give_back(BlockId block) {
  // The generation stays: the next use continues it. relaxed load: the caller
  // owns the entry.
  const BlockEntry old(words_[block.value()].load(std::memory_order_relaxed));
  words_[block.value()].store(old.bits() & ~std::uint64_t{1}, std::memory_order_release);
  sync::LockGuard lock(mutex_);
  returned_.push_back(block);
}

void BlockTable::publish(BlockId block, FrameId frame, std::uint8_t size_class) {
  YONDER_DCHECK(block.value() != 0 && block.value() < capacity_, "a block that was taken");
  const BlockEntry old(words_[block.value()].load(std::memory_order_relaxed));
  // release: pairs with the acquire in lookup().
  words_[block.value()].store(BlockEntry(frame, size_class, old.generation() + 1).bits(),
                              std::memory_order_release);
}

std::uint32_t BlockTable::in_use() const {
  sync::LockGuard lock(mutex_);
  return never_used_ - 1 - static_cast<std::uint32_t>(returned_.size());
}

}  // namespace yonder::node
