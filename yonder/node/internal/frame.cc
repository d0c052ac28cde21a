#include "yonder/node/internal/frame.h"

#include <bit>
#include <new>

#include "yonder/base/check.h"

namespace yonder::node::internal {
namespace {

std::size_t words_of(const SizeClass& shape) { return (shape.slots + 63) / 64; }

}  // namespace

FramePtr Frame::create(FrameId id, std::byte* memory, std::uint8_t size_class, const SizeClass& shape) {
  static_assert(alignof(Frame) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && sizeof(Frame) % 8 == 0);
  const std::size_t bytes = sizeof(Frame) + words_of(shape) * 8 + shape.blocks * sizeof(std::uint32_t);
  auto* raw = static_cast<std::byte*>(::operator new(bytes));
  return FramePtr(new (raw) Frame(id, memory, size_class, shape, raw + sizeof(Frame)));
}

void FrameDeleter::operator()(Frame* frame) const {
  frame->~Frame();
  ::operator delete(static_cast<void*>(frame));
}

Frame::Frame(FrameId frame_id, std::byte* frame_memory, std::uint8_t class_index, const SizeClass& shape,
             std::byte* arrays)
    : id(frame_id),
      size_class(class_index),
      slots(shape.slots),
      block_shift(shape.block_shift),
      group_count(shape.blocks),
      worth_listing(shape.slots < 32 ? (shape.slots + 1) / 2 : shape.slots / 4),
      slot_bytes(shape.slot_bytes),
      frame_bytes(shape.frame_bytes),
      memory(frame_memory),
      free_count(shape.slots),
      free_bits(new(arrays) std::uint64_t[words_of(shape)], words_of(shape)),
      blocks(new(arrays + words_of(shape) * 8) std::atomic<std::uint32_t>[shape.blocks](), shape.blocks) {
  for (std::uint32_t word = 0; word < free_bits.size(); ++word) {
    const std::uint32_t rest = slots - word * 64;
    free_bits[word] = rest >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << rest) - 1;
  }
}

bool Frame::try_take(std::uint32_t index) {
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  if ((free_bits[index / 64] & bit) == 0) return false;
  free_bits[index / 64] &= ~bit;
  --free_count;
  return true;
}

std::optional<std::uint32_t> Frame::take_any() {
  for (std::uint32_t word = 0; word < free_bits.size(); ++word) {
    if (free_bits[word] == 0) continue;
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(free_bits[word]));
    free_bits[word] &= free_bits[word] - 1;
    --free_count;
    return word * 64 + bit;
  }
  return std::nullopt;
}

std::uint64_t Frame::take_word(std::uint32_t start, std::uint32_t& word) {
  if (free_count == 0) return 0;
  const std::uint32_t count = word_count();
  word = start < count ? start : 0;
  while (free_bits[word] == 0) word = word + 1 == count ? 0 : word + 1;
  const std::uint64_t bits = free_bits[word];
  free_bits[word] = 0;
  free_count -= static_cast<std::uint32_t>(std::popcount(bits));
  return bits;
}

void Frame::put_word(std::uint32_t word, std::uint64_t bits) {
  YONDER_DCHECK((free_bits[word] & bits) == 0, "a slot is given back once");
  free_bits[word] |= bits;
  free_count += static_cast<std::uint32_t>(std::popcount(bits));
}

}  // namespace yonder::node::internal
