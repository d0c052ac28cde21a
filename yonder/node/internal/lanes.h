#pragma once
// Lanes: the heap threads of a server, lent to whichever of its threads needs one.
//
// A handler does not know on which thread it runs, but it knows its connection,
// and a connection's requests run on one poller. So each connection has a favourite
// lane, which is nearly always free (and warm in that poller's cache); the others
// stand in when two connections of different pollers share a favourite.
//
// Who takes a lane answers what others asked it: Correction::kOwner.
//
// Invariant: as many lanes as threads that run handlers, and a spare one for the
// housekeeper, who answers for handlers that could not wait; each of these holds at most
// one at a time, so somebody who looks at all of them finds one. The spare lane is
// nobody's favourite: what lies in it would be found by nobody.
//
// Concurrency: take() from any thread; a Lease by its thread.
// Lifetime: leases end before the lanes, the lanes before their heap.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/node/heap.h"
#include "yonder/sync/atomics.h"
#include "yonder/sync/spin.h"

namespace yonder::node::internal {

class Lanes {
 public:
  // `count` of them and the spare one. Requires count > 0. Errors of
  // Heap::register_thread().
  static Result<std::unique_ptr<Lanes>> create(Heap& heap, std::size_t count) {
    auto lanes = std::unique_ptr<Lanes>(new Lanes);
    for (std::size_t i = 0; i < count + 1; ++i) {
      YONDER_TRY(thread, heap.register_thread());
      lanes->lanes_.push_back(std::make_unique<Lane>(std::move(thread)));
    }
    return lanes;
  }

  class Lease {
   public:
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // release: pairs with the acquire in take(); what this thread did to the heap
    // thread's private state is visible to the next.
    ~Lease() { busy_.store(false, std::memory_order_release); }
    HeapThread* operator->() const { return &thread_; }
    HeapThread& operator*() const { return thread_; }

   private:
    friend class Lanes;
    Lease(HeapThread& thread, std::atomic<bool>& busy) : thread_(thread), busy_(busy) {}
    HeapThread& thread_;
    std::atomic<bool>& busy_;
  };

  // `favourite` is any number that a thread's requests have in common.
  Lease take(std::uint64_t favourite) {
    for (std::size_t i = favourite % (lanes_.size() - 1);; i = i + 1 == lanes_.size() ? 0 : i + 1) {
      Lane& lane = *lanes_[i];
      if (!lane.busy.exchange(true, std::memory_order_acquire)) [[likely]] {
        lane.thread.answer_others();
        return Lease(lane.thread, lane.busy);
      }
      sync::cpu_pause();
    }
  }

 private:
  struct alignas(sync::kNoSharingBytes) Lane {
    explicit Lane(HeapThread made) : thread(std::move(made)) {}
    std::atomic<bool> busy{false};
    HeapThread thread;
  };

  Lanes() = default;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace yonder::node::internal
