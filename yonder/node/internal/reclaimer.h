#pragma once
// Reclaimer: gives frames back once no thread can be looking at them.
//
// A frame is retired when nobody can find it any more: its blocks map elsewhere or
// are gone, and the frame map does not name it. Threads that found it before may
// still be reading its headers. So retired frames wait, a batch at a time: one
// heavy barrier, a note of which threads are in which section, and when each of
// those has left that section the batch goes to the frame store.
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

  // Takes over a frame that nobody can find. Polls by itself when enough wait.
  void retire(FramePtr frame);
  // Gives back what nobody looks at any more, and starts the wait of the rest.
  // Returns true if nothing waits afterwards.
  bool poll();

  std::uint64_t waiting_bytes() const { return waiting_bytes_.load(std::memory_order_relaxed); }

 private:
  // A poll costs a barrier (up to 13 µs), so it waits for a batch worth it; giving a
  // frame back costs 4.5 µs, so the batch is one that a slice of compaction bears.
  static constexpr std::size_t kPollFrames = 16;
  static constexpr std::uint64_t kPollBytes = std::uint64_t{4} << 20;

  struct Batch {
    std::vector<FramePtr> frames;
    GracePeriod grace;
  };
  void give_back(std::vector<FramePtr> frames) YONDER_REQUIRES(mutex_);

  ThreadRegistry& threads_;
  FrameStore& store_;
  std::atomic<std::uint64_t> waiting_bytes_{0};
  sync::Mutex mutex_;
  std::vector<FramePtr> retired_ YONDER_GUARDED_BY(mutex_);
  std::uint64_t retired_bytes_ YONDER_GUARDED_BY(mutex_) = 0;
  std::deque<Batch> batches_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::node::internal
