#pragma once
// ThreadRecord: what one registered thread of the heap shows to the others, and
// the frames it allocates from.
//
// Both marks are plain stores; who must know for sure issues a heavy barrier
// first (ThreadRegistry::barrier, the argument is that of sync/hazard.h):
//
//   section     odd while the thread uses frames it found through the block table.
//               A frame that nobody can find any more is freed when every thread
//               that was in a section then has left it.
//   allocating  not 0 while the thread uses a bin. The compactor takes a bin's
//               frame away: it clears bin.frame, issues the barrier, and waits
//               for this mark to go. Then either the thread saw the frame gone,
//               or it has finished with it.
//
//   thread                                   compactor (holds the class's mutex)
//   R1 allocating = 1                        W1 bin.frame = null
//   R2 light fence                           W2 heavy barrier
//   R3 if (bin.frame) use bin; else slow     W3 wait until allocating == 0
//
// I1  Not both: R3 sees the frame and W3 does not see the mark (hazard.h, I1, I2).
// I2  What the thread did with the bin is visible to the compactor: the mark goes
//     with release, W3 waits with acquire.
// I3  The thread's next look at the bin's other fields comes after the compactor's
//     last: it goes the slow way, through the class's mutex.
//
// Concurrency: per field. Lifetime: records live as long as the heap.

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/internal/frame.h"
#include "yonder/sync/atomics.h"

namespace yonder::node::internal {

// A counter with one writer; others read a value that was true a moment ago.
class OwnerCounter {
 public:
  void add(std::uint64_t n) {
    // relaxed: one writer, and nothing is published with it.
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A thread's supply of slots of one class.
struct Bin {
  // Null: go the slow way. Set under the class's mutex, by the thread or the compactor.
  std::atomic<Frame*> frame{nullptr};
  // The thread's while allocating, the compactor's after W3.
  std::uint64_t bits = 0;  // Slots of `word` that were taken from the frame and are unused.
  std::uint32_t word = 0;
  std::uint32_t shared_allocations = 0;  // Under the class's mutex.
  OwnerCounter allocated;
  OwnerCounter freed;

  // A slot of `current`, which is what `frame` said. False: the frame is used up.
  bool take(Frame& current, std::uint32_t& slot) {
    if (bits == 0) {
      SpinGuard lock(current.lock);
      bits = current.take_word(word, word);
      if (bits == 0) return false;
    }
    slot = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
    return true;
  }
};

struct alignas(sync::kNoSharingBytes) ThreadRecord {
  std::atomic<std::uint64_t> section{0};
  std::atomic<std::uint32_t> allocating{0};
  bool asymmetric = false;  // Set once: whether the light fence may be light.
  bool registered = false;  // Under the registry's mutex.

  // The thread's.
  Prng random{0};
  std::vector<Bin> bins;  // One per class, and a last one for the counters of spans.
  OwnerCounter corrections;

  void light_fence() const {
    if (asymmetric) [[likely]]
      sync::StdAtomics::compiler_fence();
    else
      sync::StdAtomics::full_fence();
  }
};

// Between construction and destruction, frames found through the table stay.
class Section {
 public:
  explicit Section(ThreadRecord& record) : record_(record) {
    // relaxed: ordered before what follows by the fence and its heavy partner.
    record_.section.store(record_.section.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    record_.light_fence();
  }
  ~Section() {
    // release: pairs with the acquire in Reclaimer; the thread's uses are over.
    record_.section.store(record_.section.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  ThreadRecord& record_;
};

// R1 to R3 above; the bin may be used while this lives.
class Allocating {
 public:
  explicit Allocating(ThreadRecord& record) : record_(record) {
    record_.allocating.store(1, std::memory_order_relaxed);  // R1
    record_.light_fence();                                   // R2
  }
  ~Allocating() { record_.allocating.store(0, std::memory_order_release); }  // I2
  Allocating(const Allocating&) = delete;
  Allocating& operator=(const Allocating&) = delete;

 private:
  ThreadRecord& record_;
};

}  // namespace yonder::node::internal
