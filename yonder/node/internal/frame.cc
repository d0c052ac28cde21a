#include "yonder/node/internal/frame.h"

#include <bit>
#include <new>

#include "yonder/base/check.h"

namespace yonder::node::internal {
namespace {

std::size_t words_of(const SizeClass& shape) { return (shape.slots + 63) / 64; }
std::size_t arrays_bytes(const SizeClass& shape) {
  return words_of(shape) * sizeof(std::uint64_t) + shape.blocks * sizeof(std::uint32_t);
}

}  // namespace

std::size_t Frame::footprint(std::uint8_t size_class, const SizeClass& shape) {
  return sizeof(Frame) + arrays_bytes(shape) + (size_class == kSpanClass ? sizeof(SizeClass) : 0);
}

FramePtr Frame::create(FrameId id, std::byte* memory, std::uint8_t size_class, const SizeClass& shape) {
  static_assert(alignof(Frame) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && sizeof(Frame) % 8 == 0);
  static_assert(alignof(SizeClass) == alignof(std::uint32_t));
  auto* raw = static_cast<std::byte*>(::operator new(footprint(size_class, shape)));
  const SizeClass* kept = &shape;
  if (size_class == kSpanClass) kept = new (raw + sizeof(Frame) + arrays_bytes(shape)) SizeClass(shape);
  return FramePtr(new (raw) Frame(id, memory, size_class, *kept));
}

void FrameDeleter::operator()(Frame* frame) const {
  frame->~Frame();
  ::operator delete(static_cast<void*>(frame));
}

Frame::Frame(FrameId frame_id, std::byte* frame_memory, std::uint8_t class_index,
             const SizeClass& class_shape)
    : memory(frame_memory),
      shape(&class_shape),
      id(frame_id),
      size_class(class_index),
      free_count(class_shape.slots) {
  new (array()) std::uint64_t[word_count()];
  for (std::uint32_t word = 0; word < word_count(); ++word) {
    const std::uint32_t rest = slots() - word * 64;
    array()[word] = rest >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << rest) - 1;
  }
  new (array() + word_count()) std::atomic<std::uint32_t>[ shape->blocks ]();
}

bool Frame::try_take(std::uint32_t index) {
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  if ((free_bits()[index / 64] & bit) == 0) return false;
  free_bits()[index / 64] &= ~bit;
  --free_count;
  return true;
}

std::optional<std::uint32_t> Frame::take_near(std::uint32_t start) {
  if (free_count == 0) return std::nullopt;
  const std::uint32_t count = word_count();
  std::uint32_t word = start / 64;
  std::uint64_t candidates = free_bits()[word] & (~std::uint64_t{0} << (start % 64));
  while (candidates == 0) {
    word = word + 1 == count ? 0 : word + 1;
    candidates = free_bits()[word];
  }
  const auto index = word * 64 + static_cast<std::uint32_t>(std::countr_zero(candidates));
  free_bits()[word] &= ~(candidates & (0 - candidates));
  --free_count;
  return index;
}

std::uint64_t Frame::take_word(std::uint32_t start, std::uint32_t& word) {
  if (free_count == 0) return 0;
  const std::uint32_t count = word_count();
  word = start < count ? start : 0;
  while (free_bits()[word] == 0) word = word + 1 == count ? 0 : word + 1;
  const std::uint64_t bits = free_bits()[word];
  free_bits()[word] = 0;
  free_count -= static_cast<std::uint32_t>(std::popcount(bits));
  return bits;
}

void Frame::put_word(std::uint32_t word, std::uint64_t bits) {
  YONDER_DCHECK((free_bits()[word] & bits) == 0, "a slot is given back once");
  free_bits()[word] |= bits;
  free_count += static_cast<std::uint32_t>(std::popcount(bits));
}

}  // namespace yonder::node::internal
