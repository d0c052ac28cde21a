#pragma once
// Fences whose cost falls on the rare side only.
//
// Two patterns of this provider need "my store before my load" on the hot path:
// a reader publishes its hazard and then loads the region's state; a producer
// publishes a cell and then loads the consumer's sleeping flag. Instead of a
// fence there, the other side, which is rare (revoking a region, going to sleep),
// issues a barrier on all processors: membarrier, global, because the hot side
// runs in another process.
//
// That needs both processes to be registered with the kernel. Each says in the
// handshake whether it is; if either is not, both of them fence on the hot path
// of that connection (`light(true)`), and the rare side's fence is enough.
//
// Concurrency: any thread. Lifetime: a value, as long as the process.

#include <atomic>
#include <optional>

#include "yonder/os/membarrier.h"

namespace yonder::fabric::shm {

class RareFence {
 public:
  // Registers this process. `allow` is off in tests of the fallback.
  static RareFence create(bool allow = true) {
    RareFence fence;
    if (!allow) return fence;
    if (auto barrier = os::Membarrier::create(os::Membarrier::Scope::kGlobal)) fence.barrier_ = *barrier;
    return fence;
  }

  bool registered() const { return barrier_.has_value(); }

  // After the rare side's store, before its loads.
  void heavy() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (barrier_) barrier_->issue();
  }

 private:
  std::optional<os::Membarrier> barrier_;
};

// Between the hot side's store and load. `fence`: the connection cannot rely on
// membarrier.
inline void light_fence(bool fence) {
  if (fence) [[unlikely]] {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

}  // namespace yonder::fabric::shm
