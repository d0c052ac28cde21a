#pragma once
// ClassPool: all frames of one size class, and who has them.
//
// Threads that allocate much of the class own a frame each and never come here
// until it is used up. Rare allocations share one frame under the pool's mutex, so
// that T threads × C classes do not cost T × C frames. Frames that are used up are
// forgotten until enough of their objects are freed. A few empty frames are kept:
// returning a frame and touching a new one costs microseconds per page, and a
// program that allocates as much as it frees would do that all the time.
//
// Lock order: pool mutex, then a frame's spin lock. Frames of a class are retired
// under its pool's mutex, so whoever holds that may use any frame it finds in the
// frame map of this class.
//
// Concurrency: any thread, not inside a Section (the holder of the mutex may wait
// for the end of sections). Lifetime: the core's.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/node/internal/frame.h"
#include "yonder/node/internal/thread_record.h"
#include "yonder/node/object_ptr.h"
#include "yonder/sync/mutex.h"

namespace yonder::node::internal {

struct HeapCore;

class ClassPool {
 public:
  ClassPool(HeapCore& core, std::uint8_t size_class) : core_(core), class_(size_class) {}
  ~ClassPool();

  // The slow way of an allocation: `bin` is the thread's and has nothing to give.
  // kOutOfMemory, kResourceExhausted.
  Result<ObjectPtr> allocate(ThreadRecord& record, Bin& bin, std::uint32_t bytes);
  // A slot of this frame was freed: lists it if it is worth it, retires it if it is
  // empty. The frame may be gone by now.
  void after_free(FrameId frame);
  // Takes back what a thread that leaves has in its bin.
  void abandon(Bin& bin);
  // Takes back what threads keep, and retires all empty frames.
  void trim();
  // At the limit every slot counts: offers the frames that have too few free ones to be
  // offered otherwise. Returns how many. A few hundred frames per hold of the mutex.
  std::size_t offer_leftovers();

  // A frame that was rebuilt from memory that somebody left; before the heap is used.
  void adopt(Frame& frame);

  // The compactor's part. Takes away what threads hold, and seizes those of up to
  // `count` frames from position `from` on that have free slots and at most
  // `most_objects` objects. Returns how many there were. A frame that changes its
  // position meanwhile is met by another run.
  std::size_t seize(std::size_t from, std::size_t count, std::uint32_t most_objects,
                    std::vector<Frame*>& out);
  // Ends the seizure of a frame that still has objects or room.
  void give(Frame& frame);
  // Retires a seized or draining frame that holds no object.
  void retire(Frame& frame);

  std::uint64_t frame_count() const;
  // Calls `visit(Frame&)` for up to `count` frames from position `from` on, under
  // the mutex; returns how many there were.
  template <typename Visit>
  std::size_t visit_frames(std::size_t from, std::size_t count, Visit&& visit) const {
    sync::LockGuard lock(mutex_);
    const std::size_t end = std::min(frames_.size(), from + count);
    for (std::size_t i = from; i < end; ++i) visit(*frames_[i]);
    return end - std::min(from, end);
  }

 private:
  Result<Frame*> next_frame() YONDER_REQUIRES(mutex_);
  Result<Frame*> new_frame() YONDER_REQUIRES(mutex_);
  Result<ObjectPtr> allocate_shared(ThreadRecord& record, std::uint32_t bytes) YONDER_REQUIRES(mutex_);
  void drop(Frame& frame) YONDER_REQUIRES(mutex_);
  // Lists a frame of which slots were freed. Returns it if it is empty and not kept.
  FramePtr relist(Frame& frame) YONDER_REQUIRES(mutex_);
  bool offer(Frame& frame) YONDER_REQUIRES(mutex_);
  static void list(Frame& frame, std::vector<Frame*>& list);
  static void unlist(Frame& frame, std::vector<Frame*>& list);
  // Without the mutex; nulls are skipped.
  void retire_all(std::vector<FramePtr> frames);
  std::size_t kept_frames() const YONDER_REQUIRES(mutex_);
  FramePtr forget(Frame& frame) YONDER_REQUIRES(mutex_);
  // Takes a frame from whatever list it is in, if it may be compacted.
  bool try_seize(Frame& frame, std::uint32_t most_objects) YONDER_REQUIRES(mutex_);
  // Empties the bins of all threads; returns the frames that got slots back.
  std::vector<Frame*> take_from_threads() YONDER_REQUIRES(mutex_);
  // Empties one bin that nobody else uses; appends the frames that got slots back.
  void empty(Bin& bin, std::vector<Frame*>& touched) YONDER_REQUIRES(mutex_);

  HeapCore& core_;
  const std::uint8_t class_;
  mutable sync::Mutex mutex_;
  std::vector<Frame*> frames_ YONDER_GUARDED_BY(mutex_);     // All of them.
  std::vector<Frame*> available_ YONDER_GUARDED_BY(mutex_);  // State kAvailable.
  std::vector<Frame*> empty_ YONDER_GUARDED_BY(mutex_);      // State kEmpty.
  Frame* shared_ YONDER_GUARDED_BY(mutex_) = nullptr;        // State kShared.
};

}  // namespace yonder::node::internal
