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
// Concurrency: one thread at a time, the class's leader.
// Lifetime: core and pool outlive it. Ends with finish().

#include <cstdint>
#include <optional>
#include <vector>

#include "yonder/node/compactor.h"
#include "yonder/node/internal/heap_core.h"
#include "yonder/node/packing.h"

namespace yonder::node::internal {

// A frame as the plan sees it, and which block each of its items is.
struct Occupancy {
  PackingFrame packing;
  std::vector<BlockId> blocks;
};
// Reads the frame's headers. Exact for a frame that nobody allocates from, except
// that objects may be freed meanwhile.
Occupancy occupancy_of(const Frame& frame);

class CompactionRun {
 public:
  CompactionRun(HeapCore& core, std::uint8_t size_class) : core_(core), class_(size_class) {}

  // Collects and plans. kNothing: there is nothing to gain, everything was given
  // back. kTooEarly: R4.
  enum class Begin : std::uint8_t { kBegan, kNothing, kTooEarly };
  Begin begin(std::uint32_t max_frames, CompactionCounters& counters);
  bool is_running() const { return running_; }
  // Moves blocks until the limits; true if the run has more to do.
  bool slice(const SliceLimits& limits, CompactionCounters& counters);
  // Gives everything back; a block under way is moved to its end first.
  void finish(CompactionCounters& counters);

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
    Frame* to = nullptr;
    bool is_native = false;  // It was born in the source, and is closed by leaving.
    std::vector<std::uint32_t> from_slots;
    std::vector<std::uint32_t> to_slots;
    std::size_t next = 0;
  };
  enum class Step : std::uint8_t { kMoved, kGone, kHeld };

  void plan();
  static void erase_moved_words(Frame& frame) YONDER_REQUIRES(frame.lock);
  void mark_source(std::uint32_t index);
  void open_source(std::uint32_t index);
  bool start_transit(const PackingMove& move);
  bool hold_alien(BlockId block);
  bool reserve(Frame& to, const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& out);
  // True when the block has arrived; false if another thread holds an object of it.
  bool advance_transit(CompactionCounters& counters);
  Step move_object(std::uint32_t from_slot, std::uint32_t to_slot);
  void end_transit(CompactionCounters& counters);
  // True if it stopped at `end` with more to look at.
  bool close_sources(Instant end, CompactionCounters& counters);
  bool try_retire(std::uint32_t index, CompactionCounters& counters);

  HeapCore& core_;
  const std::uint8_t class_;
  bool running_ = false;
  std::vector<Frame*> frames_;
  std::vector<Occupancy> occupancies_;
  PackingPlan plan_;
  std::size_t next_move_ = 0;
  std::vector<std::uint32_t> opened_;  // Sources that are not retired yet.

  Frame* source_ = nullptr;
  std::uint32_t source_index_ = 0;
  std::vector<Member> members_;
  std::optional<Transit> transit_;
  std::optional<GracePeriod> grace_;  // Of the last run that left moved words.
};

}  // namespace yonder::node::internal
