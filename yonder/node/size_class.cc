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
// What a frame costs beside its slots may be this part of their payload.
constexpr std::uint32_t kMaxOverheadShare = 64;
// Classes whose payload is too small for that share stop here: a rarely used class
// should not cost more. So do larger ones that fill no small frame well enough, once
// this many slots share a frame.
constexpr std::uint32_t kLargeFrameBytes = 64 << 10;
constexpr std::uint32_t kManySlots = 16;
// A frame's blocks: small enough that best fit finds one for every gap, and not so
// small that a unit has more of them than natural ids (block_table.h).
constexpr std::uint32_t kMinBlockBytes = kUnitBytes / 2;
// In frames that somebody wants small there must still be enough of them, at the
// price of ids that are not natural.
constexpr std::uint32_t kBlocksPerSmallFrame = 8;
constexpr std::uint32_t kMinSmallBlockBytes = 512;
// With one block per frame, the slot's number must leave bits of the id to chance.
constexpr std::uint32_t kMaxWholeFrameSlots = 1 << 12;

std::uint32_t next_slot_bytes(std::uint32_t slot_bytes) {
  if (slot_bytes < kLinearLimit) return slot_bytes + 8;
  return slot_bytes + std::bit_floor(slot_bytes) / 8;
}

std::uint32_t slots_of_bytes(std::uint32_t bytes, std::uint32_t slot_bytes) {
  return std::bit_ceil((bytes + slot_bytes - 1) / slot_bytes);
}

std::uint32_t block_slots_for(const SizeClass& shape, const SizeClassOptions& options) {
  if (options.whole_frame_blocks) return std::bit_ceil(shape.slots);
  if (options.frame_bytes == 0) return slots_of_bytes(kMinBlockBytes, shape.slot_bytes);
  const std::uint32_t wanted = shape.frame_bytes / kBlocksPerSmallFrame;
  return slots_of_bytes(std::clamp(wanted, kMinSmallBlockBytes, kMinBlockBytes), shape.slot_bytes);
}

// Bytes of a frame that no payload uses, and of what the node keeps beside it: the
// struct with its share of the system's allocator, per unit a word of the frame map
// and two ids of the block table, a bit per slot, a word per block.
std::uint32_t overhead_bytes(std::uint32_t slot_bytes, std::uint32_t frame_bytes) {
  constexpr std::uint32_t kPerFrame = 40 + 16;
  constexpr std::uint32_t kPerUnit = 8 + 2 * 10;
  const std::uint32_t slots = frame_bytes / slot_bytes;
  const std::uint32_t blocks = slots / slots_of_bytes(kMinBlockBytes, slot_bytes) + 1;
  return frame_bytes % slot_bytes + kPerFrame + frame_bytes / kUnitBytes * kPerUnit + (slots + 63) / 64 * 8 +
         blocks * 4;
}

// The smallest frame with little overhead, or the one with the least.
std::uint32_t choose_frame_bytes(std::uint32_t slot_bytes, std::uint32_t forced) {
  if (forced != 0 && forced >= slot_bytes) return forced;
  const std::uint32_t smallest = (slot_bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  const std::uint32_t largest = std::min(std::max(kLargeFrameBytes, smallest * kManySlots), kMaxFrameBytes);
  std::uint32_t best = smallest;
  for (std::uint32_t frame = smallest; frame <= largest; frame += kUnitBytes) {
    const std::uint64_t overhead = overhead_bytes(slot_bytes, frame);
    const std::uint64_t payload = std::uint64_t{frame / slot_bytes} * (slot_bytes - kHeaderBytes);
    if (overhead * kMaxOverheadShare <= payload) return frame;
    // Compared as shares of their frames.
    if (overhead * best < std::uint64_t{overhead_bytes(slot_bytes, best)} * frame) best = frame;
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
  out.block_slots = block_slots_for(out, options);
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
  for (std::uint32_t bytes = 1; bytes <= kTableLimit; ++bytes) {
    by_bytes_[bytes] = class_for_slot(slot_bytes_for(bytes));
  }
}

std::uint64_t SizeClasses::span_bytes_for(std::uint32_t bytes) const {
  return (std::uint64_t{slot_bytes_for(bytes)} + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
}

std::uint8_t SizeClasses::class_for_slot(std::uint32_t slot_bytes) {
  if (slot_bytes > kMaxSlotBytes) return kSpanClass;
  if (slot_bytes <= kMinSlotBytes) return 0;
  // next_slot_bytes() backwards: 8, 16 … up to 128, then eight steps per doubling.
  const std::uint32_t last = slot_bytes - 1;
  if (last < kLinearLimit) return static_cast<std::uint8_t>((last - kMinSlotBytes) / 8 + 1);
  constexpr std::uint32_t kLinearClasses = (kLinearLimit - kMinSlotBytes) / 8;
  const auto doubling = static_cast<std::uint32_t>(std::bit_width(last) - 1);
  const std::uint32_t doublings = doubling - static_cast<std::uint32_t>(std::countr_zero(kLinearLimit));
  return static_cast<std::uint8_t>(kLinearClasses + doublings * 8 + (last >> (doubling - 3)) - 7);
}

}  // namespace yonder::node
