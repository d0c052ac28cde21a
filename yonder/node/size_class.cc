#include "yonder/node/size_class.h"

#include <algorithm>
#include <bit>

namespace yonder::node {
namespace {

constexpr std::uint32_t kMinSlotBytes = 16;
constexpr std::uint32_t kLinearLimit = 128;
// The largest slot shares a 2 MiB frame with 31 others, so that a tail is at most
// 1/32; larger objects are spans, whose rounding to 4 KiB units is below 1/16.
constexpr std::uint32_t kMaxSlotBytes = kMaxFrameBytes / 32;
constexpr std::uint32_t kMaxTailShare = 64;
// A frame's blocks: enough of them that best fit finds small ones for the gaps,
// few enough that their table entries cost little, and no more than a unit has
// natural ids (block_table.h).
constexpr std::uint32_t kBlocksPerFrame = 8;
constexpr std::uint32_t kMinBlockBytes = 512;
// More would pack worse: large blocks of equal size leave equal gaps.
constexpr std::uint32_t kMaxBlockSlots = 32;
// With one block per frame, the slot's number must leave bits of the id to chance.
constexpr std::uint32_t kMaxWholeFrameSlots = 1 << 12;

std::uint32_t next_slot_bytes(std::uint32_t slot_bytes) {
  if (slot_bytes < kLinearLimit) return slot_bytes + 8;
  return slot_bytes + std::bit_floor(slot_bytes) / 8;
}

std::uint32_t choose_frame_bytes(std::uint32_t slot_bytes, std::uint32_t forced) {
  if (forced != 0 && forced >= slot_bytes) return forced;
  std::uint32_t best = kMaxFrameBytes;
  std::uint32_t best_tail = best;
  for (std::uint32_t frame = kUnitBytes; frame <= kMaxFrameBytes; frame += kUnitBytes) {
    if (frame < slot_bytes) continue;
    const std::uint32_t tail = frame % slot_bytes;
    if (tail <= frame / kMaxTailShare) return frame;
    // Compared as shares of their frames: tail / frame < best_tail / best.
    if (std::uint64_t{tail} * best < std::uint64_t{best_tail} * frame) {
      best = frame;
      best_tail = tail;
    }
  }
  return best;
}

SizeClass make_class(std::uint32_t slot_bytes, const SizeClassOptions& options) {
  SizeClass out{};
  out.slot_bytes = slot_bytes;
  out.frame_bytes = choose_frame_bytes(slot_bytes, options.frame_bytes);
  if (options.whole_frame_blocks) {
    while (out.frame_bytes / slot_bytes > kMaxWholeFrameSlots) out.frame_bytes /= 2;
  }
  out.slots = out.frame_bytes / slot_bytes;
  const std::uint32_t by_count = (out.slots + kBlocksPerFrame - 1) / kBlocksPerFrame;
  const std::uint32_t by_bytes = (kMinBlockBytes + slot_bytes - 1) / slot_bytes;
  const std::uint32_t small = std::min(std::bit_ceil(std::max(by_count, by_bytes)), kMaxBlockSlots);
  out.block_slots = options.whole_frame_blocks ? std::bit_ceil(out.slots) : small;
  out.block_shift = static_cast<std::uint32_t>(std::countr_zero(out.block_slots));
  out.blocks = (out.slots + out.block_slots - 1) / out.block_slots;
  return out;
}

}  // namespace

Result<SizeClasses> SizeClasses::create(const SizeClassOptions& options) {
  const std::uint32_t frame = options.frame_bytes;
  if (frame != 0 && (!std::has_single_bit(frame) || frame < kUnitBytes || frame > kMaxFrameBytes)) {
    return fail(ErrorCode::kInvalidArgument, "block size: a power of two from 4 KiB to 2 MiB", frame);
  }
  SizeClasses classes(options.validator);
  classes.add_classes(options);
  return classes;
}

void SizeClasses::add_classes(const SizeClassOptions& options) {
  for (std::uint32_t slot = kMinSlotBytes; slot <= kMaxSlotBytes; slot = next_slot_bytes(slot)) {
    classes_.push_back(make_class(slot, options));
  }
  by_eighth_.resize(kTableLimit / 8 + 1);
  std::uint8_t index = 0;
  for (std::uint32_t eighth = 0; eighth < by_eighth_.size(); ++eighth) {
    while (classes_[index].slot_bytes < eighth * 8) ++index;
    by_eighth_[eighth] = index;
  }
}

std::uint64_t SizeClasses::span_bytes_for(std::uint32_t bytes) const {
  return (std::uint64_t{slot_bytes_for(bytes)} + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
}

std::uint8_t SizeClasses::class_for_large(std::uint32_t slot_bytes) const {
  const auto found = std::ranges::lower_bound(classes_, slot_bytes, {}, &SizeClass::slot_bytes);
  return found == classes_.end() ? kSpanClass : static_cast<std::uint8_t>(found - classes_.begin());
}

}  // namespace yonder::node
