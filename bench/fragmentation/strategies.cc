#include "bench/fragmentation/strategies.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "yonder/base/check.h"

namespace yonder::bench {
namespace {

constexpr std::uint32_t kPageBytes = 4096;

std::uint64_t whole_pages(std::uint32_t bytes) {
  return (std::uint64_t{bytes} + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// A set of numbers below `universe`, as a list to walk and bits to ask.
class NumberSet {
 public:
  NumberSet(std::uint32_t count, std::uint32_t universe, Prng& random) : bits_((universe + 63) / 64) {
    while (members_.size() < count) {
      const auto number = static_cast<std::uint32_t>(random.below(universe));
      if (!contains(number)) insert(number);
    }
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  bool meets(const NumberSet& smaller) const {
    return std::ranges::any_of(smaller.members_, [this](std::uint32_t number) { return contains(number); });
  }
  void add_all(const NumberSet& other) {
    for (const std::uint32_t number : other.members_) insert(number);
  }

 private:
  bool contains(std::uint32_t number) const { return (bits_[number / 64] >> (number % 64) & 1) != 0; }
  void insert(std::uint32_t number) {
    bits_[number / 64] |= std::uint64_t{1} << (number % 64);
    members_.push_back(number);
  }
  std::vector<std::uint32_t> members_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace

std::uint32_t merge_greedily(std::vector<std::uint32_t> occupancies, std::uint32_t slots,
                             std::uint32_t universe, Prng& random) {
  std::erase(occupancies, 0u);
  std::ranges::sort(occupancies);
  std::vector<NumberSet> blocks;  // Ascending by size.
  for (const std::uint32_t count : occupancies) blocks.emplace_back(count, universe, random);
  std::uint32_t left = 0;
  while (!blocks.empty()) {
    const NumberSet source = std::move(blocks.front());
    blocks.erase(blocks.begin());
    const auto fits =
        std::ranges::upper_bound(blocks, slots - std::min(slots, source.size()), {}, &NumberSet::size);
    const auto partner = std::find_if(std::make_reverse_iterator(fits), blocks.rend(),
                                      [&](const NumberSet& block) { return !block.meets(source); });
    if (partner == blocks.rend()) {
      ++left;  // Nobody takes it, now or later: partners only grow.
      continue;
    }
    NumberSet merged = std::move(*partner);
    blocks.erase(std::prev(partner.base()));
    merged.add_all(source);
    const auto place = std::ranges::lower_bound(blocks, merged.size(), {}, &NumberSet::size);
    blocks.insert(place, std::move(merged));
  }
  return left;
}

std::vector<std::uint32_t> geometric_classes(std::uint32_t per_doubling, std::uint32_t max) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t size = 8; size <= max;) {
    sizes.push_back(size);
    size += std::max(8u, std::bit_floor(size) / per_doubling / 8 * 8);
  }
  return sizes;
}

PaperAllocator::PaperAllocator(PaperAllocatorOptions options)
    : options_(std::move(options)),
      random_(options_.seed),
      open_(options_.class_sizes.size() * options_.threads) {}

std::uint32_t PaperAllocator::class_for(std::uint32_t bytes) const {
  const auto found = std::ranges::lower_bound(options_.class_sizes, bytes);
  return found == options_.class_sizes.end()
             ? kOwnPages
             : static_cast<std::uint32_t>(found - options_.class_sizes.begin());
}

std::uint32_t PaperAllocator::block_for(std::uint32_t size_class, std::uint32_t thread) {
  OpenBlocks& open = open_[std::size_t{size_class} * options_.threads + thread];
  if (!open.empty()) return open.rbegin()->second;
  std::uint32_t block = 0;
  if (free_blocks_.empty()) {
    block = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back({});
  } else {
    block = free_blocks_.back();
    free_blocks_.pop_back();
  }
  blocks_[block] = {size_class, thread, 0};
  used_block_bytes_ += block_bytes(size_class);
  open.insert({0, block});
  return block;
}

void PaperAllocator::add_objects(std::uint32_t index, int change) {
  Block& block = blocks_[index];
  OpenBlocks& open = open_[std::size_t{block.size_class} * options_.threads + block.thread];
  open.erase({block.live, index});
  block.live += static_cast<std::uint32_t>(change);
  if (block.live == 0) {
    free_blocks_.push_back(index);
    used_block_bytes_ -= block_bytes(block.size_class);
  } else if (block.live < slots(block.size_class)) {
    open.insert({block.live, index});
  }
}

void PaperAllocator::allocate(std::uint32_t object, std::uint32_t bytes) {
  if (object >= places_.size()) places_.resize(std::size_t{object} + 1);
  live_bytes_ += bytes;
  // The thread is drawn for every allocation, as in the paper, §4.4.3.
  const auto thread = static_cast<std::uint32_t>(random_.below(options_.threads));
  const std::uint32_t size_class = class_for(bytes + options_.header_bytes);
  if (size_class == kOwnPages) {
    own_page_bytes_ += whole_pages(bytes + options_.header_bytes);
    places_[object] = {kOwnPages, bytes};
    return;
  }
  const std::uint32_t block = block_for(size_class, thread);
  add_objects(block, 1);
  places_[object] = {block, bytes};
}

void PaperAllocator::free(std::uint32_t object) {
  const Place place = places_[object];
  live_bytes_ -= place.bytes;
  if (place.block == kOwnPages) {
    own_page_bytes_ -= whole_pages(place.bytes + options_.header_bytes);
  } else {
    add_objects(place.block, -1);
  }
}

std::vector<std::uint32_t> PaperAllocator::occupancies(std::uint32_t size_class) const {
  std::vector<std::uint32_t> out;
  for (const Block& block : blocks_) {
    if (block.size_class == size_class && block.live != 0) out.push_back(block.live);
  }
  return out;
}

std::uint64_t PaperAllocator::blocks_left(std::uint32_t size_class, StrategyChoice choice,
                                          Prng& random) const {
  const std::vector<std::uint32_t> live = occupancies(size_class);
  const std::uint32_t per_block = slots(size_class);
  const std::uint64_t ids = std::uint64_t{1} << choice.id_bits;
  switch (choice.strategy) {
    case Strategy::kNone:
      return live.size();
    case Strategy::kIdeal:
      return (std::accumulate(live.begin(), live.end(), std::uint64_t{0}) + per_block - 1) / per_block;
    case Strategy::kMesh:
      return merge_greedily(live, per_block, per_block, random);
    case Strategy::kCorm:
    case Strategy::kHybrid:
      break;
  }
  if (per_block <= ids) return merge_greedily(live, per_block, static_cast<std::uint32_t>(ids), random);
  if (choice.strategy == Strategy::kCorm) return live.size();
  return merge_greedily(live, per_block, per_block, random);
}

std::uint64_t PaperAllocator::active_bytes(StrategyChoice choice) const {
  Prng random(options_.seed + 1);
  std::uint64_t bytes = own_page_bytes_;
  for (std::uint32_t size_class = 0; size_class < options_.class_sizes.size(); ++size_class) {
    bytes += blocks_left(size_class, choice, random) * block_bytes(size_class);
  }
  return bytes;
}

}  // namespace yonder::bench
