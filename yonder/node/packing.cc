#include "yonder/node/packing.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

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

class Planner {
 public:
  explicit Planner(std::span<const PackingFrame> frames)
      : frames_(frames), live_(frames.size()), order_(frames.size()) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      live_[i] = std::accumulate(frames[i].blocks.begin(), frames[i].blocks.end(), 0u);
    }
    std::iota(order_.begin(), order_.end(), 0u);
    // Emptiest first; by index among equals, so that a plan is reproducible.
    std::ranges::sort(order_, {},
                      [this](std::uint32_t i) { return std::tuple(!frames_[i].must_leave, live_[i], i); });
  }

  PackingPlan run() {
    // The largest number of sources whose objects find room in the rest: an
    // upper bound, since blocks do not split. Searched downwards; the steps grow
    // so that a hopeless case ends after a few tries.
    std::size_t sources = most_sources();
    for (std::size_t step = 1; sources > 0; step *= 2) {
      PackingPlan plan;
      if (try_sources(sources, plan)) return plan;
      sources -= std::min(sources, std::max<std::size_t>(step, sources / 256));
    }
    return {};
  }

 private:
  std::uint32_t gap(std::uint32_t frame) const {
    return frames_[frame].must_leave ? 0 : frames_[frame].slots - live_[frame];
  }

  std::size_t most_sources() const {
    std::uint64_t room = 0;
    for (const std::uint32_t frame : order_) room += gap(frame);
    std::uint64_t moved = 0;
    std::size_t count = 0;
    for (; count < order_.size(); ++count) {
      room -= gap(order_[count]);
      moved += live_[order_[count]];
      if (moved > room) break;
    }
    return count;
  }

  bool try_sources(std::size_t sources, PackingPlan& plan) const {
    ItemBuckets items(max_slots());
    for (std::size_t i = 0; i < sources; ++i) add_blocks(order_[i], items);
    for (std::size_t i = order_.size(); i-- > sources && !items.empty();) fill(order_[i], items, plan);
    if (!items.empty()) return false;
    finish(sources, plan);
    return true;
  }

  std::uint32_t max_slots() const {
    std::uint32_t most = 0;
    for (const PackingFrame& frame : frames_) most = std::max(most, frame.slots);
    return most;
  }

  void add_blocks(std::uint32_t frame, ItemBuckets& items) const {
    for (std::uint32_t block = 0; block < frames_[frame].blocks.size(); ++block) {
      const std::uint32_t size = frames_[frame].blocks[block];
      if (size != 0) items.add({size, frame, block});
    }
  }

  void fill(std::uint32_t frame, ItemBuckets& items, PackingPlan& plan) const {
    std::uint32_t room = gap(frame);
    for (Item item{}; room > 0 && items.take(room, item); room -= item.size) {
      plan.moves.push_back({item.source, item.block, frame});
    }
  }

  void finish(std::size_t sources, PackingPlan& plan) const {
    std::vector<std::uint32_t> rank(frames_.size());
    for (std::size_t i = 0; i < sources; ++i) {
      rank[order_[i]] = static_cast<std::uint32_t>(i);
      plan.freed.push_back(order_[i]);
    }
    std::ranges::sort(plan.moves, {},
                      [&](const PackingMove& move) { return std::pair(rank[move.source], move.block); });
  }

  std::span<const PackingFrame> frames_;
  std::vector<std::uint32_t> live_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

PackingPlan plan_packing(std::span<const PackingFrame> frames) { return Planner(frames).run(); }

}  // namespace yonder::node
