#pragma once
// Reclaimer: gives frames back once no thread can be looking at them.
//
// A frame is retired when nobody can find it any more: its blocks map elsewhere or
// are gone, and the frame map does not name it. Threads that found it before may
// still be reading its headers. So retired frames wait, a batch at a time: one
// heavy barrier, a note of which threads are in which section, and when each of
// those has left that section the batch goes to the frame store, in small pieces
// unless somebody wants all of it now: giving pages back takes the system a while.
//
// Concurrency: any thread, not inside a Section; one mutex.
// Lifetime: registry and store outlive it. The destructor requires that no thread
// is in a section.

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "yonder/node/frame_store.h"
#include "yonder/node/internal/frame.h"
#include "yonder/node/internal/thread_registry.h"
#include "yonder/sync/mutex.h"

namespace yonder::node::internal {

class Reclaimer {
 public:
  Reclaimer(ThreadRegistry& threads, FrameStore& store) : threads_(threads), store_(store) {}

  // Takes over a frame that nobody can find. When enough wait, starts the wait of
  // these and gives a piece of earlier ones back.
  void retire(FramePtr frame);
  // Gives back what nobody looks at any more, and starts the wait of the rest.
  // Returns true if nothing waits afterwards.
  bool poll();

  std::uint64_t waiting_bytes() const { return waiting_bytes_.load(std::memory_order_relaxed); }

 private:
  // A batch costs a barrier (up to 13 µs), so it is worth one. Giving back costs 4.5 µs
  // per frame and 0.2 µs per KiB: a piece is one that a slice of compaction bears.
  static constexpr std::size_t kBatchFrames = 32;
  static constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;
  static constexpr std::size_t kPieceFrames = 16;
  static constexpr std::uint64_t kPieceBytes = 256 << 10;

  struct Batch {
    std::vector<FramePtr> frames;
    GracePeriod grace;
  };
  void start_batch() YONDER_REQUIRES(mutex_);
  // Gives back a piece of the oldest batch, if it may go; false if not.
  bool give_piece_back() YONDER_REQUIRES(mutex_);

  ThreadRegistry& threads_;
  FrameStore& store_;
  std::atomic<std::uint64_t> waiting_bytes_{0};
  sync::Mutex mutex_;
  std::vector<FramePtr> retired_ YONDER_GUARDED_BY(mutex_);
  std::uint64_t retired_bytes_ YONDER_GUARDED_BY(mutex_) = 0;
  std::deque<Batch> batches_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::node::internal
