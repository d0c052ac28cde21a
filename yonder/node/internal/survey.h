#pragma once
// Survey: what is in memory that another process left. It reads and decides; it
// changes nothing.
//
// The block table says which frames there are and of which class; their headers say
// which objects are in them. A process that ended in order leaves only objects at rest.
// One that was killed leaves, besides:
//
//   found                                  was                            becomes
//   writing, with a note in the journal    being written                  written (finished)
//   writing, without                       held by somebody: untouched    live
//   moving in the frame of its block       being read, or copied away     live
//   … and a copy of it in another frame    a move before its link         the copy goes (undone)
//   in another frame, a moved word there   a move after its link          the whole block follows
//   moved, its object elsewhere or gone    the trace of a move            a free slot
//   a block or frame without objects       being made, or ended           gone
//
// Everything is checked before anything is believed: frames inside superblocks that do
// not overlap, homes that exist and map here, ids that say their slots, identities that
// are there once. What cannot have come from a heap, killed or not, is kCorrupt.
//
// Concurrency: one thread; nobody else uses the heap yet.
// Lifetime: the core outlives it; the results are valid until the memory changes.

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/node/internal/heap_core.h"

namespace yonder::node::internal {

struct FoundFrame {
  std::uint8_t size_class = 0;
  SizeClass shape{};
  std::uint32_t objects = 0;
  std::vector<BlockId> groups;  // The open block of each; 0: none.
};

struct FoundSlot {
  FrameId frame;
  std::uint32_t slot = 0;
  friend auto operator<=>(const FoundSlot&, const FoundSlot&) = default;
};

// A block of which some objects have arrived in their next frame.
struct HalfMovedBlock {
  BlockId block;
  FrameId to;
  std::vector<FoundSlot> arrived;
};

class Survey {
 public:
  explicit Survey(const HeapCore& core) : core_(core) {}

  // kCorrupt.
  Result<void> run();

  std::map<FrameId, FoundFrame> frames;
  std::unordered_map<BlockId, std::uint32_t> closed;  // Objects of each closed block.
  std::vector<BlockId> stillborn;                     // Entries that lead to nothing.
  std::vector<FoundSlot> writing;
  std::vector<FoundSlot> moving;  // In the frame of their block.
  std::vector<FoundSlot> copies;  // To be undone.
  std::vector<FoundSlot> moved;   // Slots with a moved word.
  std::vector<HalfMovedBlock> half_moved;

  // Arithmetic on memory that no Frame describes yet.
  std::byte* slot_at(const FoundSlot& at) const {
    return core_.store->address(at.frame) + std::uint64_t{at.slot} * frames.at(at.frame).shape.slot_bytes;
  }
  HeaderWord word_at(const FoundSlot& at) const;

 private:
  Result<void> read_table();
  Result<void> add_entry(BlockId block, BlockEntry entry);
  Result<void> check_extents() const;
  Result<void> read_frame(FrameId id, FoundFrame& frame);
  Result<void> read_object(const FoundSlot& at, FoundFrame& frame, HeaderWord word);
  Result<void> read_native(const FoundSlot& at, FoundFrame& frame, HeaderWord word);
  Result<void> explain_strays();
  Result<void> explain(const FoundSlot& stray);
  Result<void> check_half_moved() const;
  void find_stillborn();

  const HeapCore& core_;
  std::vector<BlockId> spare_open_;             // Open blocks whose group their objects tell.
  std::vector<std::uint64_t> closed_objects_;   // Identities of objects of closed blocks.
  std::vector<FoundSlot> strays_;               // Objects in a frame their block does not map to.
  std::map<FoundSlot, FrameId> moved_targets_;  // Where moved words lead → the frame they are in.
  std::unordered_map<std::uint64_t, FrameId> moving_identities_;
};

}  // namespace yonder::node::internal
