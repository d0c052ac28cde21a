#pragma once
// The physical memory of a node: superblocks, cut into frames.
//
// A superblock is a memfd, mapped once into one contiguous arena of addresses and
// (by whoever asked to be told) registered once with the fabric. A frame is a
// run of 4 KiB units inside one superblock: FrameId → address is arithmetic, for
// us and, with the superblock's region, for a remote reader.
//
//   arena      | superblock 0            | superblock 1            | reserved …
//   FrameId    0    1    2 …             N    N+1 …
//
// Frames that are released give their memory back to the system at once (the
// pages are punched out of the memfd, so a slow reader sees zeros, which is a
// free header) but are not handed out again before the quarantine is over: a
// one-sided reader that looked up the old mapping must not meet another object
// within one read.
//
// Invariants, checked by check_invariants():
//   F1  Every unit of every superblock is in exactly one of: a frame in use, the
//       quarantine, the free list.
//   F2  Neighbouring free extents of one superblock are merged.
//   F3  active_bytes() is the sum of the frames in use and never above the limit.
//
// Concurrency: any thread (one mutex; frames are taken and given rarely).
// Lifetime: frames are numbers; using one after release() is the caller's bug,
// not detected here. The destructor unmaps everything.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/node/header_word.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/sync/mutex.h"

namespace yonder::node {

struct Superblock {
  os::Memfd memfd;
  FrameId first;                // Its first unit.
  std::span<std::byte> memory;  // Its place in the arena.
};

struct FrameStoreOptions {
  Bytes limit{std::uint64_t{1} << 30};  // Of frames in use.
  Bytes superblock{std::uint64_t{128} << 20};
  os::HugePages huge_pages = os::HugePages::kOff;
  Duration quarantine = 2 * kVersionWrapBound;
  // Off: the pages of released frames stay, zeroed. A NIC that has pinned them would go
  // on reading the old ones when a frame is used again.
  bool give_back = true;
  // Called with each new superblock before any frame of it is handed out (to
  // register it with the fabric). Its error fails the allocation.
  std::function<Result<void>(const Superblock&)> on_superblock;
};

class FrameStore {
 public:
  // kInvalidArgument: limit 0 or above what FrameId can name (256 GiB), or a
  // superblock that is no multiple of 4 KiB or smaller than the largest object.
  // kOutOfMemory: the address space cannot be reserved.
  static Result<std::unique_ptr<FrameStore>> create(const Clock& clock, const FrameStoreOptions& options);
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  // `bytes` of zeroed memory, a multiple of 4 KiB, at most a superblock.
  // kOutOfMemory: the limit is reached, or the system has no more.
  Result<FrameId> allocate(std::uint64_t bytes);
  // Gives back frames that allocate() returned, with their sizes. The memory is
  // punched out in as few calls as possible.
  void release(std::span<const std::pair<FrameId, std::uint64_t>> frames);
  void release(FrameId frame, std::uint64_t bytes);

  // Takes over memory that another process left, before the first frame is allocated:
  // its superblocks in their order (kCorrupt: a file of another size; kOutOfMemory: no
  // room in the arena), and then, once, which of their frames are in use. All other
  // memory is given back, and on_superblock is called with each. kCorrupt: frames that
  // overlap, or lie outside; kOutOfMemory: more of them than the limit.
  using FrameExtent = std::pair<FrameId, std::uint64_t>;  // Its first unit, and its bytes.
  Result<void> adopt_superblock(os::Memfd memfd);
  Result<void> claim(std::vector<FrameExtent> frames);
  // Whether claim() would accept frames, given in their order: its errors, no effect.
  Result<void> check_claim(std::span<const FrameExtent> sorted) const;

  std::byte* address(FrameId frame) const { return arena_.data() + std::uint64_t{frame.value()} * kUnit; }
  // The frame unit that holds an address of the arena.
  FrameId frame_of(const std::byte* address) const {
    return FrameId(
        static_cast<std::uint32_t>((address - arena_.data()) / static_cast<std::ptrdiff_t>(kUnit)));
  }
  // Where a frame is in the file of its superblock. The file stays open.
  struct FilePlace {
    const os::Fd* fd;
    std::uint64_t offset;
  };
  FilePlace file_place(FrameId frame) const;
  std::uint32_t unit_count() const;  // Units of all superblocks so far.
  // Units there can ever be: every frame id is below this.
  std::uint32_t max_units() const { return static_cast<std::uint32_t>(arena_.size() / kUnit); }

  std::uint64_t active_bytes() const;      // In use.
  std::uint64_t quarantine_bytes() const;  // Released, not yet reusable.
  std::uint64_t limit_bytes() const { return limit_; }
  std::uint64_t superblock_bytes() const { return superblock_bytes_; }
  // Calls `visit` with every superblock.
  void for_each_superblock(const std::function<void(const Superblock&)>& visit) const;

  void check_invariants() const;

 private:
  static constexpr std::uint64_t kUnit = 4096;
  struct Extent {
    std::uint32_t first;
    std::uint32_t units;
  };
  struct Released {
    Extent extent;
    Instant reusable;
  };

  FrameStore(const Clock& clock, const FrameStoreOptions& options, os::Mapping arena);

  Result<void> add_superblock() YONDER_REQUIRES(mutex_);
  Result<Superblock> map_superblock(os::Memfd memfd) YONDER_REQUIRES(mutex_);
  // Punches what lies between the frames, which are sorted, and says what that was.
  std::vector<Extent> give_rest_back(std::span<const Extent> frames);
  void end_quarantine() YONDER_REQUIRES(mutex_);
  // Waits for what claim() gave back; false if there is nothing to wait for.
  bool await_rest() YONDER_REQUIRES(mutex_);
  bool take_best_fit(std::uint32_t units, std::uint32_t& first) YONDER_REQUIRES(mutex_);
  void add_free(Extent extent) YONDER_REQUIRES(mutex_);
  void remove_free(std::map<std::uint32_t, std::uint32_t>::iterator at) YONDER_REQUIRES(mutex_);
  std::size_t superblock_of(std::uint32_t unit) const YONDER_REQUIRES(mutex_);
  std::vector<Extent> merge_neighbours(std::span<const Extent> sorted) const;
  void punch(Extent extent, bool give_back);

  const Clock& clock_;
  const std::uint64_t limit_;
  const std::uint64_t superblock_bytes_;
  const os::HugePages huge_pages_;
  const Duration quarantine_time_;
  const bool give_back_;
  const std::function<Result<void>(const Superblock&)> on_superblock_;
  os::Mapping arena_;

  mutable sync::Mutex mutex_;
  std::deque<Superblock> superblocks_ YONDER_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::uint32_t> free_ YONDER_GUARDED_BY(mutex_);  // first unit → units
  std::set<std::pair<std::uint32_t, std::uint32_t>> by_size_
      YONDER_GUARDED_BY(mutex_);                               // (units, first unit)
  std::deque<Released> quarantine_ YONDER_GUARDED_BY(mutex_);  // oldest first
  std::size_t rest_ YONDER_GUARDED_BY(mutex_) = 0;             // Its first ones are claim()'s.
  std::uint64_t active_bytes_ YONDER_GUARDED_BY(mutex_) = 0;
  std::uint64_t quarantine_bytes_ YONDER_GUARDED_BY(mutex_) = 0;
};

}  // namespace yonder::node
