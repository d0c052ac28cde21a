#pragma once
// Collection: the first half of a compaction run, in steps: which frames it takes,
// what is in them, and the plan (CoRM 3.1.4, "collection phase").
//
//   count     only if there are more frames than a run takes: how full they are, to
//             know up to which fullness the run takes them
//   seize     frames with free slots, some hundred per hold of the class's mutex; what
//             threads hold of them is taken away: a barrier
//   read      their headers: how many objects of which block
//   plan      packing.h
//
// Every step ends soon after its time is over. Frames that are seized get no new
// objects, and everything else goes on: what a later step reads can only have become
// less.
//
// Concurrency: one thread at a time, the class's leader. Lifetime: the core's.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "yonder/base/time.h"
#include "yonder/node/internal/heap_core.h"
#include "yonder/node/packing.h"

namespace yonder::node::internal {

// A frame as the plan sees it, and which block each of its items is.
struct Occupancy {
  PackingFrame packing;
  std::vector<BlockId> blocks;
};

// Reads frames' headers. Exact for a frame that nobody allocates from, except that
// objects may be freed meanwhile.
class OccupancyReader {
 public:
  Occupancy read(const Frame& frame);

 private:
  // A hash table of the blocks met in this frame: home → its index. Blocks that were
  // moved together lie mixed, and there may be as many as slots.
  std::uint32_t& index_of(BlockId home);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> table_;  // home (0: unused), index
};

class Collection {
 public:
  Collection(HeapCore& core, std::uint8_t size_class) : core_(core), class_(size_class) {}

  // Begins with the frames that the last run left draining: they must go first.
  // Their moved words are erased here, which R4 of compaction_run.h allows now.
  void start(std::uint32_t max_frames, std::vector<Frame*> draining);
  // Goes on until `end`; true when the plan is ready.
  bool advance(Instant end);

  // The result. Frames and occupancies have the indexes that the plan uses.
  std::vector<Frame*> frames;
  std::vector<Occupancy> occupancies;
  PackingPlan plan;

 private:
  enum class Phase : std::uint8_t { kCount, kSeize, kRead, kPlan, kReady };
  static constexpr std::size_t kBuckets = 64;

  bool step();
  bool count_some();
  bool seize_some();
  bool read_one();
  bool plan_some();
  std::uint32_t most_objects() const;

  HeapCore& core_;
  const std::uint8_t class_;
  Phase phase_ = Phase::kReady;
  std::uint32_t max_frames_ = 0;
  std::size_t position_ = 0;                            // In the class's frames.
  std::array<std::uint32_t, kBuckets + 1> fullness_{};  // Frames by objects × 64 / slots.
  std::uint32_t limit_ = 0;                             // Objects of a frame that is taken, at most.
  OccupancyReader reader_;
  std::optional<PackingPlanner> planner_;
};

}  // namespace yonder::node::internal
