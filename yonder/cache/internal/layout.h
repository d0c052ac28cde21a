#pragma once
// What stands at the start of a partition's range, and how places in it are named.
//
//   range start                                                         range end
//   | PartitionHeader, one page | segment::Heap: buckets, items, free memory … |
//
// Everything a partition knows is in here: a process that gets the range at the same
// address goes on with it. No word points out of the range.
//
// Concurrency: under the lock of the partition. Lifetime: the range.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "yonder/cache/item.h"

namespace yonder::cache {

inline constexpr std::uint64_t kPartitionMagic = 0x5043'5245'444e'4f59;  // "YONDERCP"
inline constexpr std::uint32_t kLayoutVersion = 2;
inline constexpr std::size_t kHeaderPageBytes = 4096;

// The hash table: `buckets` is in use, and while it grows `old_buckets` is being emptied
// into it, a few buckets with every change; old buckets below `moved` are empty.
struct IndexState {
  Ref buckets;
  Ref old_buckets;      // 0 when it does not grow.
  std::uint32_t bits;   // log2 of the number of buckets.
  std::uint32_t moved;  // Of the old ones, which are half as many.
};

struct ListState {
  Ref head;
  Ref tail;
  std::uint64_t items;
  std::uint64_t bytes;
};

// Counted for ever; they move with the partition.
struct PartitionCounters {
  std::uint64_t stored;             // Items that were put in.
  std::uint64_t evicted;            // Thrown out for want of memory,
  std::uint64_t evicted_unfetched;  // of these never read,
  std::uint64_t evicted_active;     // read lately,
  std::uint64_t evicted_nonzero;    // with a time at which they would have expired.
  std::uint64_t reclaimed;          // Expired ones whose memory an allocation took.
  std::uint64_t expired_unfetched;
  std::uint64_t crawled;  // Expired ones the crawler found.
  std::uint64_t out_of_memory;
  std::uint64_t moves_to_cold;
  std::uint64_t moves_to_warm;
  std::uint64_t moves_within;     // Warm ones that were read again and stayed warm.
  std::uint64_t direct_reclaims;  // Times an item had to go before a new one could come.
  std::uint64_t crawler_checked;  // Items the crawler looked at.
  std::uint64_t found_expired;    // Asked for, and expired,
  std::uint64_t found_flushed;    // or flushed.

  // All are numbers of the same kind, so a report adds them up without naming each.
  PartitionCounters& operator+=(const PartitionCounters& other) {
    constexpr std::size_t kNumbers = sizeof(PartitionCounters) / sizeof(std::uint64_t);
    auto sum = std::bit_cast<std::array<std::uint64_t, kNumbers>>(*this);
    const auto added = std::bit_cast<std::array<std::uint64_t, kNumbers>>(other);
    for (std::size_t i = 0; i < kNumbers; ++i) sum[i] += added[i];
    return *this = std::bit_cast<PartitionCounters>(sum);
  }
};

// What every lookup needs, in one cache line that only changes write.
struct alignas(64) HotFields {
  IndexState index;
  // flush_all: what has an older CAS number than this is gone…
  std::uint64_t flushed_cas;
  // …and when flush_due comes, what was last accessed by then. What a flush took that is
  // past stays gone when the next is ordered: flushed_until.
  Seconds flush_due;  // 0: none is ordered.
  Seconds flushed_until;
  std::uint64_t last_cas;
  std::uint64_t items;
  std::uint64_t item_bytes;  // Header, key and value, without what the heap rounds up.
};
static_assert(sizeof(HotFields) == 64);

struct PartitionHeader {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t id;
  std::uint64_t range_address;  // Where it must be mapped.
  std::uint64_t range_bytes;
  std::uint64_t crawl_bucket;
  Seconds last_evicted_age;

  HotFields hot;
  std::array<ListState, kSegments> lists;
  PartitionCounters counters;
};
static_assert(sizeof(PartitionHeader) <= kHeaderPageBytes);

// Turns references into addresses and back.
class Range {
 public:
  explicit Range(std::byte* base) : base_(base) {}
  Item* item(Ref ref) const { return ref == 0 ? nullptr : at<Item>(ref); }
  template <typename T>
  T* at(Ref ref) const {
    return reinterpret_cast<T*>(base_ + std::size_t{ref} * kRefUnit);
  }
  Ref ref(const void* address) const {
    return static_cast<Ref>(static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_) /
                            kRefUnit);
  }

 private:
  std::byte* base_;
};

}  // namespace yonder::cache
