#include "yonder/node/block_table.h"

#include <algorithm>

#include "yonder/base/check.h"

namespace yonder::node {

static_assert(sizeof(std::atomic<std::uint64_t>) == 8 && std::atomic<std::uint64_t>::is_always_lock_free);

Result<std::unique_ptr<BlockTable>> BlockTable::create(const Options& options) {
  const std::uint64_t capacity = std::uint64_t{options.natural} + options.spare;
  if (capacity < 2 || capacity > (std::uint64_t{1} << kBlockIdBits)) {
    return fail(ErrorCode::kInvalidArgument, "block table capacity", static_cast<std::int64_t>(capacity));
  }
  YONDER_TRY(memfd, os::Memfd::create({.name = "yonder-blocks", .size = capacity * 8}));
  return adopt(options, std::move(memfd));
}

Result<std::unique_ptr<BlockTable>> BlockTable::adopt(const Options& options, os::Memfd memfd) {
  const std::uint64_t capacity = std::uint64_t{options.natural} + options.spare;
  if (capacity < 2 || capacity > (std::uint64_t{1} << kBlockIdBits) ||
      memfd.size() != os::round_up(capacity * 8, memfd.page_bytes())) {
    return fail(ErrorCode::kCorrupt, "adopt a block table: its size",
                static_cast<std::int64_t>(memfd.size()));
  }
  YONDER_TRY(mapping, os::Mapping::of_file(
                          memfd.fd(), {.bytes = memfd.size(), .protection = os::Protection::kReadWrite}));
  YONDER_TRY(census, os::Mapping::anonymous({.bytes = capacity * sizeof(Census)}));
  return std::unique_ptr<BlockTable>(
      new BlockTable(options, std::move(memfd), std::move(mapping), std::move(census)));
}

// Fresh memory is zero: every word is an entry that is not valid, every id unused.
// The words are implicitly-created objects of the mappings.
BlockTable::BlockTable(const Options& options, os::Memfd memfd, os::Mapping mapping, os::Mapping census)
    : natural_(options.natural),
      capacity_(options.natural + options.spare),
      memfd_(std::move(memfd)),
      mapping_(std::move(mapping)),
      census_mapping_(std::move(census)),
      words_(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data())),
      census_(reinterpret_cast<std::atomic<Census>*>(census_mapping_.data())),
      clock_(options.clock),
      rest_(options.rest),
      next_spare_(std::max(1u, options.natural)) {}  // Id 0 is the null pointer's.

Result<BlockId> BlockTable::open(FrameId frame, std::uint32_t group, std::uint8_t size_class) {
  const std::uint64_t wanted = std::uint64_t{frame.value()} * kNaturalPerUnit + group;
  BlockId block(static_cast<std::uint32_t>(wanted));
  if (group == kNotNatural || wanted == 0 || wanted >= natural_ || !try_take(block.value())) {
    YONDER_TRY(spare, take_spare());
    block = spare;
  }
  in_use_.fetch_add(1, std::memory_order_relaxed);  // A statistic.
  if (mirror_ != nullptr) {
    if (const auto placed = mirror_->place(block, frame, size_class); !placed) {
      mirror_->remove(block, size_class);
      give_back(block);
      return std::unexpected(placed.error());
    }
  }
  store_entry(block, next_entry(block, frame, size_class).as_open());
  return block;
}

bool BlockTable::try_take(std::uint32_t id) {
  Census unused = 0;
  // acquire: pairs with the release in give_back(); the entry is invalid and ours.
  return census_[id].compare_exchange_strong(unused, kOpen + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed);
}

Result<BlockId> BlockTable::take_spare() {
  sync::LockGuard lock(mutex_);
  std::uint32_t id = next_spare_;
  if (!returned_spares_.empty() && returned_spares_.front().usable <= now()) {
    id = returned_spares_.front().id;
    returned_spares_.pop_front();
  } else if (next_spare_ == capacity_) {
    if (mirror_ != nullptr) {
      return fail(ErrorCode::kResourceExhausted, "take a block id: each is a mapping (vm.max_map_count)",
                  capacity_);
    }
    return fail(ErrorCode::kResourceExhausted, "take a block id", capacity_);
  } else {
    ++next_spare_;
  }
  YONDER_CHECK(try_take(id), "a spare id in the list is unused");
  return BlockId(id);
}

void BlockTable::give_back(BlockId block) {
  // The generation stays: the next use continues it. relaxed load: the caller
  // owns the entry.
  const BlockEntry old(words_[block.value()].load(std::memory_order_relaxed));
  words_[block.value()].store(old.bits() & ~std::uint64_t{1}, std::memory_order_release);
  if (mirror_ != nullptr && old.valid()) mirror_->remove(block, old.size_class());
  in_use_.fetch_sub(1, std::memory_order_relaxed);
  // release: pairs with the acquire in try_take().
  census_[block.value()].store(0, std::memory_order_release);
  if (block.value() < natural_) return;
  sync::LockGuard lock(mutex_);
  returned_spares_.push_back({.id = block.value(), .usable = now() + rest_});
}

Result<void> BlockTable::publish(BlockId block, FrameId frame, std::uint8_t size_class) {
  if (mirror_ != nullptr) YONDER_TRY_VOID(mirror_->move(block, frame, size_class));
  store_entry(block, next_entry(block, frame, size_class));
  return {};
}

BlockEntry BlockTable::next_entry(BlockId block, FrameId frame, std::uint8_t size_class) const {
  YONDER_DCHECK(block.value() != 0 && block.value() < capacity_, "a block that was taken");
  // relaxed: the caller owns the entry.
  const BlockEntry old(words_[block.value()].load(std::memory_order_relaxed));
  return {frame, size_class, old.generation() + 1};
}

void BlockTable::store_entry(BlockId block, BlockEntry entry) {
  // release: pairs with the acquire in lookup().
  words_[block.value()].store(entry.bits(), std::memory_order_release);
}

Result<void> BlockTable::restore(BlockId block, std::uint32_t away) {
  const BlockEntry entry = lookup(block);
  YONDER_CHECK(entry.valid() && census(block) == 0, "an id is restored once");
  if (mirror_ != nullptr) YONDER_TRY_VOID(mirror_->place(block, entry.frame(), entry.size_class()));
  // relaxed, as everything here: nobody else uses the table yet.
  const auto count = static_cast<Census>(entry.is_open() ? kOpen + 1 : 1 + away);
  census_[block.value()].store(count, std::memory_order_relaxed);
  in_use_.fetch_add(1, std::memory_order_relaxed);
  sync::LockGuard lock(mutex_);
  if (block.value() >= next_spare_) next_spare_ = block.value() + 1;
  return {};
}

void BlockTable::discard(BlockId block) {
  const BlockEntry entry = lookup(block);
  words_[block.value()].store(entry.bits() & ~std::uint64_t{1}, std::memory_order_release);
}

void BlockTable::finish_restoring() {
  sync::LockGuard lock(mutex_);
  // Ids above the highest restored one were never used, or are free again.
  for (std::uint32_t id = std::max(1u, natural_); id < next_spare_; ++id) {
    if (census(BlockId(id)) == 0) returned_spares_.push_back({.id = id, .usable = Instant()});
  }
}

void BlockTable::one_left(BlockId block) {
  // relaxed: the block is open, so no decrement can end it now.
  [[maybe_unused]] const Census before = census_[block.value()].fetch_add(1, std::memory_order_relaxed);
  YONDER_DCHECK((before & kOpen) != 0, "objects leave open blocks");
}

void BlockTable::one_gone(BlockId block) {
  // acq_rel: what every earlier one did with the block is done before it is given back.
  const Census before = census_[block.value()].fetch_sub(1, std::memory_order_acq_rel);
  YONDER_DCHECK((before & ~kOpen) > 1, "one object was away");
  if (before == 2) give_back(block);
}

void BlockTable::close(BlockId block) {
  const Census before = census_[block.value()].fetch_sub(kOpen, std::memory_order_acq_rel);
  YONDER_DCHECK((before & kOpen) != 0, "a block is closed once");
  if (before == kOpen + 1) give_back(block);
}

bool BlockTable::try_hold(BlockId block) {
  Census now = census(block);
  while (now > 1) {
    if (census_[block.value()].compare_exchange_weak(now, static_cast<Census>(now + 1),
                                                     std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

std::uint32_t BlockTable::away_count(BlockId block) const {
  const auto count = static_cast<Census>(census(block) & ~kOpen);
  return count == 0 ? 0 : count - 1u;
}

}  // namespace yonder::node
