#pragma once
// ThreadRecord: what one registered thread of the heap shows to the others, and
// the frames it allocates from.
//
// One word says what the thread is doing, written with plain stores; who must know
// for sure issues a heavy barrier first (ThreadRegistry::barrier, the argument is
// that of sync/hazard.h):
//
//   bit  0            1           2               64
//       | in section | uses bins | sections so far |
//
//   in section  the thread uses frames it found through the block table. A frame that
//               nobody can find any more is freed when every thread that was in a
//               section then has left it.
//   uses bins   … and a bin of its own. The compactor takes what a bin holds away: it
//               closes the bin, issues the barrier, and waits for that section to
//               end. Then either the thread saw the bin closed, or it has finished
//               with it. Such a section never waits for anything.
//
//   thread                                   compactor (holds the class's mutex)
//   R1 activity |= uses bins                 W1 bin.open = false
//   R2 light fence                           W2 heavy barrier
//   R3 if (bin.open) use bin; else slow      W3 wait for the end of sections with the mark
//
// I1  Not both: R3 sees the bin open and W3 does not see the mark (hazard.h, I1, I2).
// I2  What the thread did with the bin is visible to the compactor: the section ends
//     with release, W3 waits with acquire.
// I3  The thread's next look at the bin's other fields comes after the compactor's
//     last: it goes the slow way, through the class's mutex, and opens the bin
//     there. So it also sees which frames the compactor has.
//
// Concurrency: per field. Lifetime: records live as long as the heap.

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/internal/frame.h"
#include "yonder/node/internal/write_journal.h"
#include "yonder/sync/atomics.h"

namespace yonder::node::internal {

// A counter with one writer; others read a value that was true a moment ago.
class OwnerCounter {
 public:
  // Always inline: g++ makes a function of it that is called by every free.
  [[gnu::always_inline]] void add(std::uint64_t n) {
    // relaxed: one writer, and nothing is published with it.
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A free slot, with all that its next object needs to know. Two words, each written
// and read as one: the next allocation reads what a free has just written, and the
// processor hands a store over only to a load of the same piece.
class FreeSlot {
 public:
  FreeSlot() = default;
  FreeSlot(std::byte* memory, BlockId home, std::uint32_t index)
      : memory_(memory), where_(std::uint64_t{home.value()} << 32 | index) {}
  static FreeSlot of(const Frame& frame, std::uint32_t index) {
    return {frame.slot(index), frame.block_of(index), index};
  }

  std::byte* memory() const { return memory_; }
  // The block of new objects there.
  BlockId home() const { return BlockId(static_cast<std::uint32_t>(where_ >> 32)); }
  // In its frame.
  std::uint32_t index() const { return static_cast<std::uint32_t>(where_); }

 private:
  std::byte* memory_ = nullptr;
  std::uint64_t where_ = 0;
};

// A thread's supply of slots of one class: those it freed last, of whatever frame,
// and then those of its own frame. What is freed and allocated again stays in the
// thread, and in its cache.
struct Bin {
  static constexpr std::uint32_t kMaxKept = 8;

  // False: go the slow way. Set under the class's mutex, by the thread or the compactor.
  std::atomic<bool> open{false};
  // The thread's in a section that uses bins, the compactor's after W3.
  std::uint32_t kept = 0;
  std::uint32_t keeps = 0;  // How many it may keep; constant.
  std::uint32_t word = 0;
  // The thread's.
  OwnerCounter allocated;
  OwnerCounter freed;
  // As `kept`.
  std::array<FreeSlot, kMaxKept> slots;
  Frame* frame = nullptr;
  std::uint64_t bits = 0;  // Slots of `word` that were taken from the frame and are unused.
  // Under the class's mutex.
  std::uint32_t shared_allocations = 0;

  // False: the bin has nothing to give.
  bool take(FreeSlot& out) {
    if (kept != 0) [[likely]] {
      out = slots[--kept];
      return true;
    }
    return frame != nullptr && take_from_frame(out);
  }
  bool take_from_frame(FreeSlot& out) {
    if (bits == 0) {
      SpinGuard lock(frame->lock);
      bits = frame->take_word(word, word);
      if (bits == 0) return false;
    }
    out = FreeSlot::of(*frame, word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
    bits &= bits - 1;
    return true;
  }
  // Whether a slot that is about to be freed can stay here. False: there is no room,
  // or the compactor has its frame.
  bool can_keep(const Frame& of, std::uint32_t index) const {
    if (kept < keeps) [[likely]]
      return !of.is_compacted();
    return frame == &of && word == index / 64;
  }
  // Requires can_keep().
  void keep(const FreeSlot& slot) {
    if (kept < keeps) [[likely]]
      slots[kept++] = slot;
    else
      bits |= std::uint64_t{1} << (slot.index() % 64);
  }
};

struct alignas(sync::kNoSharingBytes) ThreadRecord {
  std::atomic<std::uint64_t> activity{0};
  bool asymmetric = false;  // Set once: whether the light fence may be light.
  bool registered = false;  // Under the registry's mutex.
  std::uint32_t index = 0;  // In the registry; constant.

  // The thread's.
  Prng random{0};
  std::vector<Bin> bins;  // One per class, and a last one for the counters of spans.
  OwnerCounter corrections;
  std::optional<WriteJournal::Lane> journal;  // None unless the heap has a keeper; set once.

  // Of a class, or that of spans.
  Bin& bin(std::uint8_t size_class) { return bins[size_class == kSpanClass ? bins.size() - 1 : size_class]; }

  void light_fence() const {
    if (asymmetric) [[likely]]
      sync::StdAtomics::compiler_fence();
    else
      sync::StdAtomics::full_fence();
  }
};

inline constexpr std::uint64_t kInSection = 1;
inline constexpr std::uint64_t kUsesBins = 2;
inline constexpr std::uint64_t kActivities = kInSection | kUsesBins;

// Between construction and destruction, frames found through the table stay, and
// with kUsesBins the thread's open bins are its own. Sections do not nest.
class Section {
 public:
  explicit Section(ThreadRecord& record, std::uint64_t also = 0) : record_(record) {
    // relaxed: ordered before what follows by the fence and its heavy partner. R1, R2
    idle_ = record.activity.load(std::memory_order_relaxed);
    record.activity.store(idle_ | kInSection | also, std::memory_order_relaxed);
    record.light_fence();
  }
  ~Section() {
    // release: pairs with the acquire of whoever waits; the thread's uses are over. I2
    record_.activity.store(idle_ + kActivities + 1, std::memory_order_release);
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  ThreadRecord& record_;
  std::uint64_t idle_;
};

}  // namespace yonder::node::internal
