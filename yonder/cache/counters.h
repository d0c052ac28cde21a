#pragma once
// What the threads of a server count, as memcached's `stats` reports it.
//
// Concurrency: each thread adds to a ThreadCounters of its own; anybody may read, and
// sees each number as it was a moment ago.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace yonder::cache {

enum class Count : std::uint8_t {
  kCmdGet,
  kCmdSet,
  kCmdFlush,
  kCmdTouch,
  kCmdMeta,
  kGetHits,
  kHitsToWarm,  // Of these, in the warm list,
  kHitsToCold,  // in the cold one.
  kGetMisses,
  kDeleteMisses,
  kDeleteHits,
  kIncrMisses,
  kIncrHits,
  kDecrMisses,
  kDecrHits,
  kCasMisses,
  kCasHits,
  kCasBadval,
  kTouchHits,
  kTouchMisses,
  kStoreTooLarge,
  kStoreNoMemory,
  kAuthCmds,
  kAuthErrors,
  kBytesRead,
  kBytesWritten,
  kForwarded,      // Commands sent on to the owner of their key.
  kForwardFailed,  // Of these, answered with an error of ours.
  kSlowReaders,    // Times a connection was not read because it took no replies.
  kIdleKicks,      // Connections closed for being idle.
  kConnYields,     // Times a connection that had more to say had to let others go first.
  kCount_,
};
inline constexpr std::size_t kCounts = static_cast<std::size_t>(Count::kCount_);

using CounterValues = std::array<std::uint64_t, kCounts>;

class alignas(64) ThreadCounters {
 public:
  void add(Count what, std::uint64_t amount = 1) {
    std::atomic<std::uint64_t>& value = values_[static_cast<std::size_t>(what)];
    // relaxed: one writer, and readers want no order between numbers.
    value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void add_to(CounterValues& sum) const {
    for (std::size_t i = 0; i < kCounts; ++i) sum[i] += values_[i].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kCounts> values_{};
};

}  // namespace yonder::cache
