#include "yonder/node/internal/reclaimer.h"

#include <algorithm>

namespace yonder::node::internal {

void Reclaimer::retire(FramePtr frame) {
  waiting_bytes_.fetch_add(frame->frame_bytes, std::memory_order_relaxed);  // A statistic.
  bool enough = false;
  {
    sync::LockGuard lock(mutex_);
    retired_bytes_ += frame->frame_bytes;
    retired_.push_back(std::move(frame));
    enough = retired_.size() >= kPollFrames || retired_bytes_ >= kPollBytes;
  }
  if (enough) poll();
}

bool Reclaimer::poll() {
  sync::LockGuard lock(mutex_);
  if (!retired_.empty()) start_batch();
  while (!batches_.empty() && is_over(batches_.front())) {
    give_back(std::move(batches_.front().frames));
    batches_.pop_front();
  }
  return batches_.empty();
}

void Reclaimer::start_batch() {
  // The frames were made unfindable before; after the barrier, a thread that does
  // not show a section will not find them, and one that found them shows it.
  threads_.barrier();
  Batch batch{.frames = std::move(retired_), .readers = {}};
  retired_.clear();
  retired_bytes_ = 0;
  for (const ThreadRecord& record : threads_.records()) {
    // acquire: pairs with the release at a section's end.
    const std::uint64_t section = record.section.load(std::memory_order_acquire);
    if (section % 2 != 0) batch.readers.emplace_back(&record, section);
  }
  batches_.push_back(std::move(batch));
}

bool Reclaimer::is_over(const Batch& batch) {
  return std::ranges::all_of(batch.readers, [](const auto& reader) {
    return reader.first->section.load(std::memory_order_acquire) != reader.second;
  });
}

void Reclaimer::give_back(std::vector<FramePtr> frames) {
  std::vector<std::pair<FrameId, std::uint64_t>> memory;
  std::uint64_t bytes = 0;
  for (const FramePtr& frame : frames) {
    memory.emplace_back(frame->id, frame->frame_bytes);
    bytes += frame->frame_bytes;
  }
  store_.release(memory);
  waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace yonder::node::internal
