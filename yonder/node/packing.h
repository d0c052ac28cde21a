#pragma once
// Packing: which blocks go into which frames so that the most frames become free.
//
// Items are blocks (how many live objects each has), bins are frames (how many
// slots). A block moves as a whole, because the block table has one entry for it;
// a frame is freed when all its blocks have left. This is pure arithmetic on
// counts: the compactor executes a plan, a dry run only reports it, and the
// benchmarks feed it with occupancies of traces.
//
// The method: the fullest frames stay and are filled, the emptiest leave. How
// many can leave is known from the sums; it is tried, and if the blocks do not
// all fit, fewer are tried. Each gap is filled with the largest block that fits,
// fullest frame first, so that the many small blocks are left for the small gaps.
//
// Planning can be done in pieces (PackingPlanner), so that a compactor that promised to
// stop after a while can keep its word.
//
// Concurrency: values. Lifetime: a planner owns what it plans with.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace yonder::node {

struct PackingFrame {
  std::uint32_t slots = 0;
  std::vector<std::uint32_t> blocks;  // Live objects of each block; zeros allowed.
  bool must_leave = false;            // Never a destination, and the first to be emptied.
};

struct PackingMove {
  std::uint32_t source;       // Index of the frame,
  std::uint32_t block;        // of the block in it,
  std::uint32_t destination;  // and of the frame it goes to.
};

struct PackingPlan {
  std::vector<PackingMove> moves;    // Grouped by source, emptiest source first.
  std::vector<std::uint32_t> freed;  // Frames that are empty after the moves, in the same order.
};

// Plans the merging of frames of one class. Every source in the plan is emptied
// entirely; destinations never exceed their slots.
class PackingPlanner {
 public:
  explicit PackingPlanner(std::vector<PackingFrame> frames);
  PackingPlanner(PackingPlanner&&) noexcept;
  PackingPlanner& operator=(PackingPlanner&&) noexcept;
  ~PackingPlanner();

  // Goes on for about so many blocks (some 50 ns each). True: the plan is ready.
  bool advance(std::size_t blocks);
  // Requires that it is ready; once.
  PackingPlan take_plan();

 private:
  class Attempt;
  struct State;
  std::unique_ptr<State> state_;
};

// The same in one piece.
PackingPlan plan_packing(std::span<const PackingFrame> frames);

}  // namespace yonder::node
