#include "yonder/node/internal/collection.h"

#include <bit>
#include <utility>

namespace yonder::node::internal {
namespace {

// Frames per hold of the class's mutex: some 10 µs.
constexpr std::size_t kFramesPerHold = 256;
// Blocks planned between two looks at the clock: some 25 µs.
constexpr std::size_t kBlocksPerStep = 512;

// The frame was left by a run that was stopped. R4: nobody follows its words now.
void erase_moved_words(Frame& frame) {
  for (std::uint32_t slot = 0; slot < frame.slots(); ++slot) {
    if (!frame.load_header(slot).is_moved()) continue;
    // release: keeps the order of the headers; a reader that still comes here
    // finds a free slot, and the table's new entry.
    frame.header(slot).store(HeaderWord::left().bits(), std::memory_order_release);
  }
}

}  // namespace

std::uint32_t& OccupancyReader::index_of(BlockId home) {
  const std::size_t mask = table_.size() - 1;
  // Ids of neighbours differ in their low bits, which spreads them well enough.
  std::size_t at = home.value() & mask;
  while (table_[at].first != 0 && table_[at].first != home.value()) at = (at + 1) & mask;
  table_[at].first = home.value();
  return table_[at].second;
}

Occupancy OccupancyReader::read(const Frame& frame) {
  constexpr std::uint32_t kNone = UINT32_MAX;
  Occupancy out;
  out.packing.slots = frame.slots();
  table_.assign(std::bit_ceil(std::size_t{frame.slots()} * 2), {0, kNone});
  for (std::uint32_t slot = 0; slot < frame.slots(); ++slot) {
    const HeaderWord word = frame.load_header(slot);
    if (word.is_free() || word.is_moved()) continue;
    std::uint32_t& index = index_of(word.home());
    if (index == kNone) {
      index = static_cast<std::uint32_t>(out.blocks.size());
      out.blocks.push_back(word.home());
      out.packing.blocks.push_back(0);
    }
    ++out.packing.blocks[index];
  }
  return out;
}

void Collection::start(std::uint32_t max_frames, std::vector<Frame*> draining) {
  frames = std::move(draining);
  occupancies.clear();
  plan = {};
  planner_.reset();
  max_frames_ = max_frames;
  position_ = 0;
  fullness_ = {};
  limit_ = core_.classes[class_].slots;
  phase_ = core_.pools[class_]->frame_count() > max_frames ? Phase::kCount : Phase::kSeize;
}

bool Collection::advance(Instant end) {
  while (phase_ != Phase::kReady) {
    if (step()) {
      phase_ = static_cast<Phase>(static_cast<std::uint8_t>(phase_) + 1);
      position_ = 0;
    }
    if (core_.clock.now() >= end) break;
  }
  return phase_ == Phase::kReady;
}

// True when the phase is over.
bool Collection::step() {
  switch (phase_) {
    case Phase::kCount:
      return count_some();
    case Phase::kSeize:
      return seize_some();
    case Phase::kRead:
      return read_one();
    case Phase::kPlan:
      return plan_some();
    case Phase::kReady:
      break;
  }
  return true;
}

bool Collection::count_some() {
  const auto count = [this](Frame& frame) {
    SpinGuard lock(frame.lock);
    if (frame.free_count != 0) ++fullness_[(frame.slots() - frame.free_count) * kBuckets / frame.slots()];
  };
  const std::size_t seen = core_.pools[class_]->visit_frames(position_, kFramesPerHold, count);
  position_ += seen;
  if (seen == kFramesPerHold) return false;
  limit_ = most_objects();
  return true;
}

// The fullness up to which frames are taken, so that they are as many as a run takes.
std::uint32_t Collection::most_objects() const {
  std::uint32_t met = 0;
  std::size_t bucket = 0;
  while (bucket < kBuckets && met + fullness_[bucket] < max_frames_) met += fullness_[bucket++];
  // To the end of the bucket with which they are enough: seize_some() stops in it.
  const std::uint64_t slots = core_.classes[class_].slots;
  return static_cast<std::uint32_t>((bucket + 1) * slots / kBuckets);
}

bool Collection::seize_some() {
  if (frames.size() >= max_frames_) return true;
  const std::size_t room = std::min<std::size_t>(kFramesPerHold, max_frames_ - frames.size());
  const std::size_t seen = core_.pools[class_]->seize(position_, room, limit_, frames);
  position_ += seen;
  return seen < room;
}

bool Collection::read_one() {
  if (position_ < frames.size()) {
    Frame& frame = *frames[position_++];
    const bool draining = frame.state == FrameState::kDraining;
    if (draining) erase_moved_words(frame);
    occupancies.push_back(reader_.read(frame));
    occupancies.back().packing.must_leave = draining;
  }
  return position_ == frames.size();
}

bool Collection::plan_some() {
  if (!planner_) {
    std::vector<PackingFrame> packing;
    for (const Occupancy& occupancy : occupancies) packing.push_back(occupancy.packing);
    planner_.emplace(std::move(packing));
    return false;
  }
  if (!planner_->advance(kBlocksPerStep)) return false;
  plan = planner_->take_plan();
  planner_.reset();
  return true;
}

}  // namespace yonder::node::internal
