#include "yonder/node/internal/reclaimer.h"

#include <algorithm>
#include <utility>

namespace yonder::node::internal {

void Reclaimer::retire(FramePtr frame) {
  waiting_bytes_.fetch_add(frame->frame_bytes(), std::memory_order_relaxed);  // A statistic.
  sync::LockGuard lock(mutex_);
  retired_bytes_ += frame->frame_bytes();
  retired_.push_back(std::move(frame));
  if (retired_.size() >= kBatchFrames || retired_bytes_ >= kBatchBytes)
    start_batch();
  else
    give_piece_back();  // More than what came, so batches do not pile up.
}

void Reclaimer::start_batch() {
  // Neighbours go back with one call.
  std::ranges::sort(retired_, {}, [](const FramePtr& frame) { return frame->id.value(); });
  batches_.push_back({.frames = std::exchange(retired_, {}), .grace = threads_.start_grace()});
  retired_bytes_ = 0;
}

bool Reclaimer::poll() {
  sync::LockGuard lock(mutex_);
  if (!retired_.empty()) start_batch();
  while (give_piece_back()) {
  }
  return batches_.empty();
}

bool Reclaimer::give_piece_back() {
  if (batches_.empty() || !batches_.front().grace.is_over()) return false;
  std::vector<FramePtr>& frames = batches_.front().frames;
  std::vector<std::pair<FrameId, std::uint64_t>> memory;
  std::uint64_t bytes = 0;
  while (!frames.empty() && memory.size() < kPieceFrames && bytes < kPieceBytes) {
    memory.emplace_back(frames.back()->id, frames.back()->frame_bytes());
    bytes += frames.back()->frame_bytes();
    frames.pop_back();
  }
  if (frames.empty()) batches_.pop_front();
  store_.release(memory);
  waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return true;
}

}  // namespace yonder::node::internal
