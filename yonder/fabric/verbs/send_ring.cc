#include "yonder/fabric/verbs/internal/send_ring.h"

#include <algorithm>
#include <bit>

namespace yonder::fabric::verbs {

// Four entries per request on average, and room for two requests of the largest
// kind in any case: an empty ring can always take one, even where the rest of
// the array is too short for it.
SendRing::SendRing(VerbsEndpoint& owner, Layout layout)
    : depth_(layout.depth),
      slots_(std::bit_ceil(layout.depth)),
      pieces_(std::max(std::size_t{layout.depth} * 4, std::size_t{layout.max_pieces} * 2)) {
  for (SendSlot& slot : slots_) slot.owner = &owner;
}

void SendRing::set_staging(std::byte* memory) {
  for (SendSlot& slot : slots_) {
    slot.staging = memory;
    memory += kStagingBytes;
  }
}

SendSlot* SendRing::prepare(std::uint32_t pieces) {
  if (full()) return nullptr;
  std::uint64_t begin = empty() ? pieces_head_ : at(tail_ - 1).pieces_end;
  const std::size_t capacity = pieces_.size();
  if (begin % capacity + pieces > capacity) begin += capacity - begin % capacity;  // No wrap inside a list.
  if (begin + pieces - pieces_head_ > capacity) {
    if (!empty()) return nullptr;
    pieces_head_ = begin;  // Nothing is in use: what was skipped is free again.
  }
  SendSlot& slot = at(tail_);
  slot.sequence = tail_;
  slot.pieces = std::span(pieces_).subspan(begin % capacity, pieces);
  slot.pieces_end = begin + pieces;
  slot.scatter_from = nullptr;
  slot.status = ErrorCode::kOk;
  slot.state = SlotState::kQueued;
  slot.was_posted = false;
  return &slot;
}

}  // namespace yonder::fabric::verbs
