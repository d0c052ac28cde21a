#pragma once
// CompactionRun: one run of one class, from collecting to giving back.
//
// R1  Sources and destinations of a run are disjoint, and a block moves at most
//     once in it: a reader that follows a moved word arrives (L1 of locate.h).
// R2  A frame gets no new object from the moment it is seized, so what the plan
//     counted can only become less, and the room it counted only more.
// R3  A block's entry is switched when no object of it is left in the source.
// R4  Moved words are erased before the next run of the class begins: their
//     destinations are its sources, perhaps. It begins when every thread has left
//     the section in which it could have seen them (grace_).
//
// R5  A switch that the system refuses (no mapping, no registration: BlockTable::publish)
//     leaves its block *stuck*: its objects are at the destination, written and freed
//     there, and found through the moved words at the source. Both frames stay out of
//     every pool, no other block of the run is moved, and the next run begins with the
//     switch; until it succeeds there is none.
//
// A run is a sequence of slices, each bounded in time: collecting (collection.h),
// moving and retiring, giving back.
//
// Concurrency: one thread at a time, the class's leader.
// Lifetime: core and pool outlive it. Ends with a slice that says so, or with stop().

#include <cstdint>
#include <optional>
#include <vector>

#include "yonder/node/compactor.h"
#include "yonder/node/internal/collection.h"
#include "yonder/node/internal/heap_core.h"

namespace yonder::node::internal {

class CompactionRun {
 public:
  CompactionRun(HeapCore& core, std::uint8_t size_class)
      : core_(core), class_(size_class), collection_(core, size_class) {}

  // One slice; begins the run if there is none.
  //   kTooEarly  it cannot begin yet: R4
  //   kMore      it goes on
  //   kDone      it has ended and freed something
  //   kNothing   it has ended: there was nothing to gain, or R5 forbids to begin
  enum class Outcome : std::uint8_t { kTooEarly, kMore, kDone, kNothing };
  Outcome slice(std::uint32_t max_frames, const SliceLimits& limits, CompactionCounters& counters);
  bool is_running() const { return phase_ != Phase::kIdle; }
  // The block that R5 is about, if it was born elsewhere than in its source: its census
  // counts one for the run.
  std::optional<BlockId> held_block() const {
    if (!stuck_ || stuck_->is_native) return std::nullopt;
    return stuck_->block;
  }
  // Gives everything back at once; a block under way is moved to its end first.
  void stop(CompactionCounters& counters);

 private:
  // One object of the source that is being drained.
  struct Member {
    std::uint32_t home;
    std::uint32_t slot;
    friend auto operator<=>(const Member&, const Member&) = default;
  };
  // A block on its way.
  struct Transit {
    BlockId block;
    Frame* from = nullptr;
    Frame* to = nullptr;
    bool is_native = false;  // It was born in the source, and is closed by leaving.
    std::vector<std::uint32_t> from_slots;
    std::vector<std::uint32_t> to_slots;
    std::size_t next = 0;
  };
  enum class Step : std::uint8_t { kMoved, kGone, kHeld };
  enum class Progress : std::uint8_t { kArrived, kHeld, kStuck };
  enum class Phase : std::uint8_t { kIdle, kCollecting, kMoving, kGiving };

  void begin(std::uint32_t max_frames);
  void collect(Instant end, CompactionCounters& counters);
  // Sources without objects need no move.
  void mark_empty_sources();
  void move_blocks(Instant end, std::uint32_t blocks, CompactionCounters& counters);
  // Gives back what was collected and is not retired, until `end`.
  void give_some(Instant end);
  Outcome finish();
  void mark_source(std::uint32_t index);
  void open_source(std::uint32_t index);
  bool start_transit(const PackingMove& move);
  bool hold_alien(BlockId block);
  bool reserve(Frame& to, const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& out);
  // kHeld: another thread holds an object of the block. kStuck: R5.
  Progress advance_transit(CompactionCounters& counters);
  Step move_object(std::uint32_t from_slot, std::uint32_t to_slot);
  // All objects have moved: the books of both frames say so.
  void settle(const Transit& transit);
  // The switch. False: R5.
  bool try_switch(const Transit& transit, CompactionCounters& counters);
  // Tries the switch of the block that the last run left stuck.
  bool try_free_stuck(CompactionCounters& counters);
  // True if it stopped at `end` with more to look at.
  bool close_sources(Instant end, CompactionCounters& counters);
  bool try_retire(std::uint32_t index, CompactionCounters& counters);

  HeapCore& core_;
  const std::uint8_t class_;
  Phase phase_ = Phase::kIdle;
  Collection collection_;
  std::size_t next_move_ = 0;
  std::size_t next_given_ = 0;
  std::vector<std::uint32_t> opened_;  // Sources that are not retired yet.

  Frame* source_ = nullptr;
  std::uint32_t source_index_ = 0;
  std::vector<Member> members_;
  std::optional<Transit> transit_;
  std::optional<Transit> stuck_;
  std::vector<Frame*> draining_;      // Sources that a stopped run has not emptied.
  std::optional<GracePeriod> grace_;  // Of the last run that left moved words.
};

}  // namespace yonder::node::internal
