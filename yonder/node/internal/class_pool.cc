#include "yonder/node/internal/class_pool.h"

#include <algorithm>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/node/internal/heap_core.h"

namespace yonder::node::internal {
namespace {

// W3, I2: waits for the end of the section in which the thread may use its bins. It
// is a few dozen instructions long, but the thread may have lost its core.
void wait_until_bins_are_left(const ThreadRecord& record) {
  const std::uint64_t seen = record.activity.load(std::memory_order_acquire);
  if ((seen & kUsesBins) == 0) return;
  for (int i = 0; record.activity.load(std::memory_order_acquire) == seen; ++i) {
    if (i < 1000)
      sync::cpu_pause();
    else
      std::this_thread::yield();
  }
}

std::vector<Frame*> distinct(std::vector<Frame*> frames) {
  std::ranges::sort(frames);
  const auto rest = std::ranges::unique(frames);
  frames.erase(rest.begin(), rest.end());
  return frames;
}

}  // namespace

ClassPool::~ClassPool() {
  sync::LockGuard lock(mutex_);
  for (Frame* frame : frames_) FrameDeleter()(frame);
}

Result<ObjectPtr> ClassPool::allocate(ThreadRecord& record, Bin& bin, std::uint32_t bytes) {
  sync::LockGuard lock(mutex_);
  // Open or not: the thread that owns the bin and holds the mutex has it to itself.
  if (bin.open.load(std::memory_order_relaxed) && bin.frame != nullptr) {
    drop(*std::exchange(bin.frame, nullptr));  // It is used up.
  }
  bin.open.store(true, std::memory_order_release);
  if (++bin.shared_allocations <= core_.classes[class_].slots / 4 + 1) return allocate_shared(record, bytes);
  for (;;) {
    // The first thread that needs a frame of its own takes the shared one: a class
    // that one thread uses has no second. It may be full, a next one is not.
    Frame* frame = std::exchange(shared_, nullptr);
    if (frame == nullptr) {
      YONDER_TRY(next, next_frame());
      frame = next;
    }
    {
      SpinGuard frame_lock(frame->lock);
      frame->state = FrameState::kOwned;
    }
    bin.frame = frame;
    bin.word = 0;
    FreeSlot slot;
    if (bin.take_from_frame(slot)) return core_.place(slot, class_, bytes, record.random);
    drop(*std::exchange(bin.frame, nullptr));
  }
}

// Under the mutex to its end: the compactor must not meet a slot that has been
// taken and holds no object yet.
Result<ObjectPtr> ClassPool::allocate_shared(ThreadRecord& record, std::uint32_t bytes) {
  for (;;) {
    if (shared_ != nullptr) {
      std::optional<std::uint32_t> slot;
      {
        SpinGuard frame_lock(shared_->lock);
        slot = shared_->take_near(0);
      }
      if (slot) return core_.place(FreeSlot::of(*shared_, *slot), class_, bytes, record.random);
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

void ClassPool::adopt(Frame& frame) {
  sync::LockGuard lock(mutex_);
  frame.position = static_cast<std::uint32_t>(frames_.size());
  frames_.push_back(&frame);
  drop(frame);
}

// Nobody hands out this frame's slots any more.
void ClassPool::drop(Frame& frame) {
  bool listed = false;
  {
    SpinGuard lock(frame.lock);
    listed = frame.free_count >= frame.worth_listing();
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
    surplus = relist(*frame);
  }
  if (surplus) core_.reclaimer.retire(std::move(surplus));
}

FramePtr ClassPool::relist(Frame& frame) {
  bool newly_listed = false;
  bool newly_empty = false;
  {
    SpinGuard frame_lock(frame.lock);
    if (frame.state == FrameState::kFull && frame.free_count >= frame.worth_listing()) {
      frame.state = FrameState::kAvailable;
      newly_listed = true;
    }
    if (frame.state == FrameState::kAvailable && frame.free_count == frame.slots()) {
      frame.state = FrameState::kEmpty;
      newly_empty = true;
    }
  }
  if (newly_listed && !newly_empty) list(frame, available_);
  if (!newly_empty) return nullptr;
  if (!newly_listed) unlist(frame, available_);
  if (empty_.size() >= kept_frames()) return forget(frame);
  list(frame, empty_);
  return nullptr;
}

void ClassPool::retire_all(std::vector<FramePtr> frames) {
  for (FramePtr& frame : frames) {
    if (frame) core_.reclaimer.retire(std::move(frame));
  }
}

void ClassPool::trim() {
  std::vector<FramePtr> surplus;
  {
    sync::LockGuard lock(mutex_);
    for (Frame* frame : take_from_threads()) surplus.push_back(relist(*frame));
    if (shared_ != nullptr) drop(*std::exchange(shared_, nullptr));
    for (Frame* frame : std::vector<Frame*>(available_)) surplus.push_back(relist(*frame));
    for (Frame* frame : std::exchange(empty_, {})) surplus.push_back(forget(*frame));
  }
  retire_all(std::move(surplus));
}

bool ClassPool::offer(Frame& frame) {
  {
    SpinGuard lock(frame.lock);
    if (frame.state != FrameState::kFull || frame.free_count == 0) return false;
    frame.state = FrameState::kAvailable;
  }
  list(frame, available_);
  return true;
}

std::size_t ClassPool::offer_leftovers() {
  constexpr std::size_t kFramesPerHold = 256;
  std::size_t offered = 0;
  for (std::size_t from = 0;; from += kFramesPerHold) {
    sync::LockGuard lock(mutex_);
    if (from >= frames_.size()) return offered;
    const std::size_t end = std::min(frames_.size(), from + kFramesPerHold);
    for (std::size_t i = from; i < end; ++i) offered += offer(*frames_[i]) ? 1 : 0;
  }
}

FramePtr ClassPool::forget(Frame& frame) {
  Frame* last = frames_.back();
  frames_[frame.position] = last;
  last->position = frame.position;
  frames_.pop_back();
  return core_.unmake_frame(frame);
}

void ClassPool::empty(Bin& bin, std::vector<Frame*>& touched) {
  bin.open.store(false, std::memory_order_relaxed);
  for (; bin.kept != 0; --bin.kept) {
    const FreeSlot& slot = bin.slots[bin.kept - 1];
    // The block is where it was when the slot was kept: compaction empties bins first.
    Frame* frame = core_.frame_at(core_.table->lookup(slot.home()).frame());
    SpinGuard lock(frame->lock);
    frame->put(slot.index());
    touched.push_back(frame);
  }
  Frame* frame = std::exchange(bin.frame, nullptr);
  if (frame == nullptr) return;
  SpinGuard lock(frame->lock);
  if (bin.bits != 0) frame->put_word(bin.word, std::exchange(bin.bits, 0));
  frame->state = FrameState::kFull;
  touched.push_back(frame);
}

void ClassPool::abandon(Bin& bin) {
  std::vector<FramePtr> surplus;
  {
    sync::LockGuard lock(mutex_);
    bin.shared_allocations = 0;
    std::vector<Frame*> touched;
    empty(bin, touched);
    for (Frame* frame : distinct(std::move(touched))) surplus.push_back(relist(*frame));
  }
  retire_all(std::move(surplus));
}

std::vector<Frame*> ClassPool::take_from_threads() {
  std::vector<ThreadRecord*> owners;
  for (ThreadRecord& record : core_.threads.records()) {
    Bin& bin = record.bins[class_];
    if (!bin.open.load(std::memory_order_relaxed)) continue;
    // relaxed: the barrier below is the order (W1, W2 of thread_record.h).
    bin.open.store(false, std::memory_order_relaxed);
    owners.push_back(&record);
  }
  std::vector<Frame*> touched;
  if (owners.empty()) return touched;
  core_.threads.barrier();
  for (ThreadRecord* record : owners) {
    wait_until_bins_are_left(*record);
    empty(record->bins[class_], touched);
  }
  return distinct(std::move(touched));
}

bool ClassPool::try_seize(Frame& frame, std::uint32_t most_objects) {
  FrameState was = FrameState::kFull;
  {
    SpinGuard lock(frame.lock);
    was = frame.state;
    if (frame.is_compacted()) return false;
    if (frame.free_count == 0 || frame.slots() - frame.free_count > most_objects) return false;
    frame.state = FrameState::kSeized;
  }
  if (was == FrameState::kAvailable) unlist(frame, available_);
  if (was == FrameState::kEmpty) unlist(frame, empty_);
  if (was == FrameState::kShared) shared_ = nullptr;
  return true;
}

std::size_t ClassPool::seize(std::size_t from, std::size_t count, std::uint32_t most_objects,
                             std::vector<Frame*>& out) {
  std::vector<FramePtr> surplus;
  std::size_t seen = 0;
  {
    sync::LockGuard lock(mutex_);
    // No bin holds a slot of a frame that is seized, and none can before it is seen to
    // be: bins are opened under the mutex.
    for (Frame* frame : take_from_threads()) surplus.push_back(relist(*frame));
    const std::size_t end = std::min(frames_.size(), from + count);
    for (std::size_t i = from; i < end; ++i) {
      if (try_seize(*frames_[i], most_objects)) out.push_back(frames_[i]);
    }
    seen = end - std::min(from, end);
  }
  retire_all(std::move(surplus));
  return seen;
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
