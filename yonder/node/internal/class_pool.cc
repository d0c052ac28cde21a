#include "yonder/node/internal/class_pool.h"

#include <algorithm>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/node/internal/heap_core.h"

namespace yonder::node::internal {
namespace {

// Bounded by one allocation of another thread; it may have lost its core.
void wait_until_not_allocating(const ThreadRecord& record) {
  for (int i = 0; record.allocating.load(std::memory_order_acquire) != 0; ++i) {  // W3, I2
    if (i < 1000)
      sync::cpu_pause();
    else
      std::this_thread::yield();
  }
}

}  // namespace

ClassPool::~ClassPool() {
  sync::LockGuard lock(mutex_);
  for (Frame* frame : frames_) FrameDeleter()(frame);
}

Result<ObjectPtr> ClassPool::allocate(ThreadRecord& record, Bin& bin, std::uint32_t bytes) {
  sync::LockGuard lock(mutex_);
  // relaxed: only this thread and holders of the mutex change it.
  if (Frame* used_up = bin.frame.load(std::memory_order_relaxed); used_up != nullptr) {
    bin.frame.store(nullptr, std::memory_order_relaxed);
    return_slots(*used_up, bin);
    drop(*used_up);
  }
  bin.bits = 0;
  if (++bin.shared_allocations <= core_.classes[class_].slots / 4 + 1) return allocate_shared(record, bytes);
  YONDER_TRY(frame, next_frame());
  {
    SpinGuard frame_lock(frame->lock);
    frame->state = FrameState::kOwned;
  }
  bin.word = 0;
  std::uint32_t slot = 0;
  YONDER_CHECK(bin.take(*frame, slot), "a frame that is handed out has a free slot");
  bin.frame.store(frame, std::memory_order_release);
  return core_.place(*frame, slot, bytes, record.random);
}

// Under the mutex to its end: the compactor must not meet a slot that has been
// taken and holds no object yet.
Result<ObjectPtr> ClassPool::allocate_shared(ThreadRecord& record, std::uint32_t bytes) {
  for (;;) {
    if (shared_ != nullptr) {
      std::optional<std::uint32_t> slot;
      {
        SpinGuard frame_lock(shared_->lock);
        slot = shared_->take_any();
      }
      if (slot) return core_.place(*shared_, *slot, bytes, record.random);
      drop(*std::exchange(shared_, nullptr));
    }
    YONDER_TRY(frame, next_frame());
    SpinGuard frame_lock(frame->lock);
    frame->state = FrameState::kShared;
    shared_ = frame;
  }
}

Result<Frame*> ClassPool::next_frame() {
  // Empty ones last: they are those that can be given back.
  std::vector<Frame*>& list = available_.empty() ? empty_ : available_;
  if (list.empty()) return new_frame();
  Frame* frame = list.back();
  list.pop_back();
  return frame;
}

Result<Frame*> ClassPool::new_frame() {
  YONDER_TRY(frame, core_.make_frame(class_, core_.classes[class_]));
  frame->position = static_cast<std::uint32_t>(frames_.size());
  frames_.push_back(frame);
  return frame;
}

// Nobody hands out this frame's slots any more.
void ClassPool::drop(Frame& frame) {
  bool listed = false;
  {
    SpinGuard lock(frame.lock);
    listed = frame.free_count >= frame.worth_listing;
    frame.state = listed ? FrameState::kAvailable : FrameState::kFull;
  }
  if (listed) list(frame, available_);
}

void ClassPool::list(Frame& frame, std::vector<Frame*>& list) {
  frame.listed_position = static_cast<std::uint32_t>(list.size());
  list.push_back(&frame);
}

void ClassPool::unlist(Frame& frame, std::vector<Frame*>& list) {
  Frame* last = list.back();
  list[frame.listed_position] = last;
  last->listed_position = frame.listed_position;
  list.pop_back();
}

// One, or an eighth of the class's frames, or as many as 64 KiB.
std::size_t ClassPool::kept_frames() const {
  constexpr std::size_t kKeptBytes = 64 << 10;
  return std::max({std::size_t{1}, frames_.size() / 8, kKeptBytes / core_.classes[class_].frame_bytes});
}

void ClassPool::after_free(FrameId id) {
  FramePtr surplus;
  {
    sync::LockGuard lock(mutex_);
    Frame* frame = core_.frame_at(id);
    if (frame == nullptr || frame->size_class != class_) return;
    bool newly_listed = false;
    bool newly_empty = false;
    {
      SpinGuard frame_lock(frame->lock);
      if (frame->state == FrameState::kFull && frame->free_count >= frame->worth_listing) {
        frame->state = FrameState::kAvailable;
        newly_listed = true;
      }
      if (frame->state == FrameState::kAvailable && frame->free_count == frame->slots) {
        frame->state = FrameState::kEmpty;
        newly_empty = true;
      }
    }
    if (newly_listed && !newly_empty) list(*frame, available_);
    if (!newly_empty) return;
    if (!newly_listed) unlist(*frame, available_);
    if (empty_.size() < kept_frames()) {
      list(*frame, empty_);
      return;
    }
    surplus = forget(*frame);
  }
  core_.reclaimer.retire(std::move(surplus));
}

void ClassPool::trim() {
  std::vector<FramePtr> surplus;
  {
    sync::LockGuard lock(mutex_);
    for (Frame* frame : std::exchange(empty_, {})) surplus.push_back(forget(*frame));
  }
  for (FramePtr& frame : surplus) core_.reclaimer.retire(std::move(frame));
}

FramePtr ClassPool::forget(Frame& frame) {
  Frame* last = frames_.back();
  frames_[frame.position] = last;
  last->position = frame.position;
  frames_.pop_back();
  return core_.unmake_frame(frame);
}

void ClassPool::return_slots(Frame& frame, Bin& bin) {
  SpinGuard lock(frame.lock);
  if (bin.bits != 0) frame.put_word(bin.word, std::exchange(bin.bits, 0));
}

void ClassPool::abandon(Bin& bin) {
  FrameId id;
  {
    sync::LockGuard lock(mutex_);
    bin.shared_allocations = 0;
    Frame* frame = bin.frame.exchange(nullptr, std::memory_order_relaxed);
    if (frame == nullptr) return;
    id = frame->id;
    return_slots(*frame, bin);
    drop(*frame);
  }
  after_free(id);  // It may be empty.
}

void ClassPool::take_from_threads() {
  std::vector<std::pair<Frame*, ThreadRecord*>> taken;
  for (ThreadRecord& record : core_.threads.records()) {
    Frame* frame = record.bins[class_].frame.load(std::memory_order_relaxed);
    if (frame == nullptr) continue;
    // relaxed: the barrier below is the order (W1, W2 of thread_record.h).
    record.bins[class_].frame.store(nullptr, std::memory_order_relaxed);
    taken.emplace_back(frame, &record);
  }
  if (taken.empty()) return;
  core_.threads.barrier();
  for (const auto& [frame, record] : taken) {
    wait_until_not_allocating(*record);
    return_slots(*frame, record->bins[class_]);
    SpinGuard lock(frame->lock);
    frame->state = FrameState::kFull;
  }
}

std::vector<Frame*> ClassPool::seize(std::size_t max_frames) {
  sync::LockGuard lock(mutex_);
  take_from_threads();
  shared_ = nullptr;
  available_.clear();
  empty_.clear();
  std::vector<Frame*> draining;
  std::vector<std::pair<std::uint32_t, Frame*>> candidates;  // objects, frame
  for (Frame* frame : frames_) {
    SpinGuard frame_lock(frame->lock);
    if (frame->state == FrameState::kDraining) {
      draining.push_back(frame);
    } else if (frame->free_count != 0) {
      frame->state = FrameState::kSeized;
      candidates.emplace_back(frame->slots - frame->free_count, frame);
    } else {
      frame->state = FrameState::kFull;
    }
  }
  const std::size_t taken = std::min(candidates.size(), max_frames - std::min(max_frames, draining.size()));
  std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(taken));
  for (std::size_t i = 0; i < taken; ++i) draining.push_back(candidates[i].second);
  for (std::size_t i = taken; i < candidates.size(); ++i) drop(*candidates[i].second);
  return draining;
}

void ClassPool::give(Frame& frame) {
  const FrameId id = frame.id;
  {
    sync::LockGuard lock(mutex_);
    {
      SpinGuard frame_lock(frame.lock);
      if (frame.state == FrameState::kDraining) return;  // The next run's.
    }
    drop(frame);
  }
  after_free(id);  // It may have become empty meanwhile.
}

void ClassPool::retire(Frame& frame) {
  FramePtr gone;
  {
    sync::LockGuard lock(mutex_);
    gone = forget(frame);
  }
  core_.reclaimer.retire(std::move(gone));
}

std::uint64_t ClassPool::frame_count() const {
  sync::LockGuard lock(mutex_);
  return frames_.size();
}

}  // namespace yonder::node::internal
