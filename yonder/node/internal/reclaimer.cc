#include "yonder/node/internal/reclaimer.h"

#include <utility>

namespace yonder::node::internal {

void Reclaimer::retire(FramePtr frame) {
  waiting_bytes_.fetch_add(frame->frame_bytes(), std::memory_order_relaxed);  // A statistic.
  bool enough = false;
  {
    sync::LockGuard lock(mutex_);
    retired_bytes_ += frame->frame_bytes();
    retired_.push_back(std::move(frame));
    enough = retired_.size() >= kPollFrames || retired_bytes_ >= kPollBytes;
  }
  if (enough) poll();
}

bool Reclaimer::poll() {
  sync::LockGuard lock(mutex_);
  if (!retired_.empty()) {
    batches_.push_back({.frames = std::exchange(retired_, {}), .grace = threads_.start_grace()});
    retired_bytes_ = 0;
  }
  while (!batches_.empty() && batches_.front().grace.is_over()) {
    give_back(std::move(batches_.front().frames));
    batches_.pop_front();
  }
  return batches_.empty();
}

void Reclaimer::give_back(std::vector<FramePtr> frames) {
  std::vector<std::pair<FrameId, std::uint64_t>> memory;
  std::uint64_t bytes = 0;
  for (const FramePtr& frame : frames) {
    memory.emplace_back(frame->id, frame->frame_bytes());
    bytes += frame->frame_bytes();
  }
  store_.release(memory);
  waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace yonder::node::internal
