#include "yonder/node/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "yonder/base/check.h"

namespace yonder::node {
namespace {

struct Item {
  std::uint32_t size;
  std::uint32_t source;
  std::uint32_t block;
};

// Items by size, so that "the largest that fits" is a walk down from the gap.
class ItemBuckets {
 public:
  explicit ItemBuckets(std::uint32_t max_size) : buckets_(std::size_t{max_size} + 1) {}

  void add(const Item& item) {
    buckets_[item.size].push_back(item);
    largest_ = std::max(largest_, item.size);
    ++count_;
  }
  bool empty() const { return count_ == 0; }

  // The largest item of at most `gap`; false if none.
  bool take(std::uint32_t gap, Item& out) {
    while (largest_ > 0 && buckets_[largest_].empty()) --largest_;
    for (std::uint32_t size = std::min(gap, largest_); size > 0; --size) {
      if (buckets_[size].empty()) continue;
      out = buckets_[size].back();
      buckets_[size].pop_back();
      --count_;
      return true;
    }
    return false;
  }

 private:
  std::vector<std::vector<Item>> buckets_;
  std::uint32_t largest_ = 0;
  std::size_t count_ = 0;
};

// The frames, and what is asked about them again and again.
struct Frames {
  explicit Frames(std::vector<PackingFrame> given) : all(std::move(given)), live(all.size()) {
    // Emptiest first, those that must leave before; by index among equals, so that a
    // plan is reproducible. One number each: sorting is most of what planning costs.
    std::vector<std::uint64_t> keys(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      live[i] = std::accumulate(all[i].blocks.begin(), all[i].blocks.end(), 0u);
      most_live_in_block = std::max(most_live_in_block, most(all[i].blocks));
      keys[i] = std::uint64_t{!all[i].must_leave} << 63 | std::uint64_t{live[i]} << 32 | i;
    }
    std::ranges::sort(keys);
    for (const std::uint64_t key : keys) order.push_back(static_cast<std::uint32_t>(key));
  }
  static std::uint32_t most(const std::vector<std::uint32_t>& blocks) {
    return blocks.empty() ? 0 : *std::ranges::max_element(blocks);
  }
  std::uint32_t gap(std::uint32_t frame) const {
    return all[frame].must_leave ? 0 : all[frame].slots - live[frame];
  }
  // The largest number of sources whose objects find room in the rest: an upper
  // bound, since blocks do not split.
  std::size_t most_sources() const {
    std::uint64_t room = 0;
    for (const std::uint32_t frame : order) room += gap(frame);
    std::uint64_t moved = 0;
    std::size_t count = 0;
    for (; count < order.size(); ++count) {
      room -= gap(order[count]);
      moved += live[order[count]];
      if (moved > room) break;
    }
    return count;
  }

  std::vector<PackingFrame> all;
  std::vector<std::uint32_t> live;
  std::vector<std::uint32_t> order;
  std::uint32_t most_live_in_block = 0;
};

}  // namespace

// One try: the blocks of the first so many frames go into the gaps of the rest.
class PackingPlanner::Attempt {
 public:
  Attempt(const Frames& frames, std::size_t sources)
      : frames_(frames),
        sources_(sources),
        items_(frames.most_live_in_block),
        unfilled_(frames.order.size()) {}

  // Goes on for about `blocks` blocks. True: it is over.
  bool advance(std::size_t& blocks) {
    for (; added_ < sources_ && blocks > 0; ++added_) add_blocks(frames_.order[added_], blocks);
    while (added_ == sources_ && blocks > 0 && !items_.empty() && unfilled_ > sources_) {
      fill(frames_.order[--unfilled_], blocks);
    }
    return added_ == sources_ && (items_.empty() || unfilled_ == sources_);
  }
  bool succeeded() const { return added_ == sources_ && items_.empty(); }
  std::size_t sources() const { return sources_; }

  PackingPlan plan() {
    PackingPlan plan;
    plan.freed.assign(frames_.order.begin(), frames_.order.begin() + static_cast<std::ptrdiff_t>(sources_));
    // Grouped by source, in the order of `freed`: count, then place.
    std::vector<std::size_t> next(frames_.all.size());
    for (const PackingMove& move : moves_) ++next[move.source];
    std::size_t start = 0;
    for (const std::uint32_t source : plan.freed) start += std::exchange(next[source], start);
    plan.moves.resize(moves_.size());
    for (const PackingMove& move : moves_) plan.moves[next[move.source]++] = move;
    return plan;
  }

 private:
  static void spend(std::size_t& blocks, std::size_t used) { blocks -= std::min(blocks, used); }

  void add_blocks(std::uint32_t frame, std::size_t& blocks) {
    const std::vector<std::uint32_t>& sizes = frames_.all[frame].blocks;
    for (std::uint32_t block = 0; block < sizes.size(); ++block) {
      if (sizes[block] != 0) items_.add({sizes[block], frame, block});
    }
    spend(blocks, sizes.size() + 1);
  }

  void fill(std::uint32_t frame, std::size_t& blocks) {
    std::uint32_t room = frames_.gap(frame);
    std::size_t filled = 0;
    for (Item item{}; room > 0 && items_.take(room, item); room -= item.size, ++filled) {
      moves_.push_back({item.source, item.block, frame});
    }
    spend(blocks, filled + 1);
  }

  const Frames& frames_;
  const std::size_t sources_;
  ItemBuckets items_;
  std::size_t added_ = 0;  // Sources whose blocks are items.
  std::size_t unfilled_;   // Frames from here on in the order are filled.
  std::vector<PackingMove> moves_;
};

struct PackingPlanner::State {
  explicit State(std::vector<PackingFrame> given)
      : frames(std::move(given)), sources(frames.most_sources()) {}

  Frames frames;
  std::size_t sources;   // Of the next attempt, or of this.
  std::size_t step = 1;  // By how many fewer the next one tries.
  std::optional<Attempt> attempt;
  bool ready = false;
};

PackingPlanner::PackingPlanner(std::vector<PackingFrame> frames)
    : state_(std::make_unique<State>(std::move(frames))) {}
PackingPlanner::PackingPlanner(PackingPlanner&&) noexcept = default;
PackingPlanner& PackingPlanner::operator=(PackingPlanner&&) noexcept = default;
PackingPlanner::~PackingPlanner() = default;

bool PackingPlanner::advance(std::size_t blocks) {
  State& state = *state_;
  while (!state.ready && blocks > 0) {
    if (!state.attempt) {
      state.ready = state.sources == 0;
      if (state.ready) break;
      state.attempt.emplace(state.frames, state.sources);
    }
    if (!state.attempt->advance(blocks)) break;
    state.ready = state.attempt->succeeded();
    if (state.ready) break;
    // Searched downwards; the steps grow so that a hopeless case ends after a few tries.
    state.sources -= std::min(state.sources, std::max(state.step, state.sources / 256));
    state.step *= 2;
    state.attempt.reset();
  }
  return state.ready;
}

PackingPlan PackingPlanner::take_plan() {
  YONDER_CHECK(state_->ready, "a plan is taken when it is ready");
  return state_->attempt ? state_->attempt->plan() : PackingPlan{};
}

PackingPlan plan_packing(std::span<const PackingFrame> frames) {
  PackingPlanner planner({frames.begin(), frames.end()});
  planner.advance(std::numeric_limits<std::size_t>::max());
  return planner.take_plan();
}

}  // namespace yonder::node
