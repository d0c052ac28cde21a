#include "yonder/node/internal/compaction_run.h"

#include <algorithm>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/node/internal/waiter.h"

namespace yonder::node::internal {
namespace {

// How long a slice waits for an object that a thread is writing before it lets
// its caller go and comes back: a copy, not a lost core.
constexpr int kHeldSpins = 2000;
// For the same object when the run must end: its holder is in the middle of one
// copy, and a machine that keeps it from running for so long is a bug to be seen.
constexpr Duration kPatience = std::chrono::minutes(1);

}  // namespace

Occupancy occupancy_of(const Frame& frame) {
  Occupancy out;
  out.packing.slots = frame.slots();
  // Few blocks share a frame: a linear search beats a map.
  for (std::uint32_t slot = 0; slot < frame.slots(); ++slot) {
    const HeaderWord word = frame.load_header(slot);
    if (word.is_free() || word.is_moved()) continue;
    auto at = std::ranges::find(out.blocks, word.home());
    if (at == out.blocks.end()) {
      out.blocks.push_back(word.home());
      out.packing.blocks.push_back(0);
      at = out.blocks.end() - 1;
    }
    ++out.packing.blocks[static_cast<std::size_t>(at - out.blocks.begin())];
  }
  return out;
}

CompactionRun::Begin CompactionRun::begin(std::uint32_t max_frames, CompactionCounters& counters) {
  YONDER_CHECK(!running_, "one run at a time");
  if (grace_ && !grace_->is_over()) return Begin::kTooEarly;  // R4
  grace_.reset();
  const Instant start = core_.clock.now();
  frames_ = core_.pools[class_]->seize(max_frames);
  running_ = true;
  plan();
  const auto took = static_cast<std::uint64_t>((core_.clock.now() - start).count());
  counters.collection_ns += took;
  counters.longest_collection_ns = std::max(counters.longest_collection_ns, took);
  if (!plan_.freed.empty()) {
    ++counters.runs;
    return Begin::kBegan;
  }
  finish(counters);
  return Begin::kNothing;
}

void CompactionRun::plan() {
  std::vector<PackingFrame> packing;
  for (Frame* frame : frames_) {
    occupancies_.push_back(occupancy_of(*frame));
    SpinGuard lock(frame->lock);
    if (frame->state == FrameState::kDraining) {
      erase_moved_words(*frame);
      occupancies_.back().packing.must_leave = true;
    }
    packing.push_back(occupancies_.back().packing);
  }
  plan_ = plan_packing(packing);
  next_move_ = 0;
  // Sources without objects need no move.
  for (const std::uint32_t index : plan_.freed) {
    if (occupancies_[index].blocks.empty()) mark_source(index);
  }
}

// The frame was left by a run that was stopped. R4: nobody follows its words now.
void CompactionRun::erase_moved_words(Frame& frame) {
  constexpr HeaderWord kLeft = HeaderWord::of(BlockId(0), ObjectId(0), 1, SlotState::kLive);
  for (std::uint32_t slot = 0; slot < frame.slots(); ++slot) {
    if (!frame.load_header(slot).is_moved()) continue;
    // release: keeps the order of the headers; a reader that still comes here
    // finds a free slot, and the table's new entry.
    frame.header(slot).store(kLeft.bits(), std::memory_order_release);
  }
}

// From here on objects leave this frame.
void CompactionRun::mark_source(std::uint32_t index) {
  opened_.push_back(index);
  SpinGuard lock(frames_[index]->lock);
  frames_[index]->state = FrameState::kDraining;
}

void CompactionRun::open_source(std::uint32_t index) {
  mark_source(index);
  source_ = frames_[index];
  source_index_ = index;
  members_.clear();
  for (std::uint32_t slot = 0; slot < source_->slots(); ++slot) {
    const HeaderWord word = source_->load_header(slot);
    if (!word.is_free() && !word.is_moved()) members_.push_back({word.home().value(), slot});
  }
  std::ranges::sort(members_);
}

bool CompactionRun::slice(const SliceLimits& limits, CompactionCounters& counters) {
  const Instant start = core_.clock.now();
  const Instant end = start + limits.time;
  bool held = false;
  for (std::uint32_t blocks = 0; !held && (transit_ || next_move_ < plan_.moves.size());) {
    if (!transit_ && !start_transit(plan_.moves[next_move_])) {
      ++next_move_;
      continue;
    }
    if (!advance_transit(counters)) {
      held = true;
      break;
    }
    ++next_move_;
    if (++blocks >= limits.blocks || core_.clock.now() >= end) break;
  }
  const bool unclosed = close_sources(end, counters);
  ++counters.slices;
  const auto took = static_cast<std::uint64_t>((core_.clock.now() - start).count());
  counters.moving_ns += took;
  counters.longest_slice_ns = std::max(counters.longest_slice_ns, took);
  return transit_.has_value() || next_move_ < plan_.moves.size() || unclosed;
}

// False if the block has no object left, or (never, by R2) no room.
bool CompactionRun::start_transit(const PackingMove& move) {
  if (source_ == nullptr || source_index_ != move.source) open_source(move.source);
  Transit transit;
  transit.block = occupancies_[move.source].blocks[move.block];
  transit.to = frames_[move.destination];
  const auto range = std::ranges::equal_range(members_, transit.block.value(), {}, &Member::home);
  for (const Member& member : range) transit.from_slots.push_back(member.slot);
  if (transit.from_slots.empty()) return false;
  transit.is_native = source_->block_of(transit.from_slots.front()) == transit.block;
  if (!transit.is_native && !hold_alien(transit.block)) return false;
  if (!reserve(*transit.to, transit.from_slots, transit.to_slots)) {
    if (!transit.is_native) core_.table->one_gone(transit.block);
    return false;
  }
  transit_ = std::move(transit);
  return true;
}

// A block that was born elsewhere may be given back by whoever frees its last
// object, and be another frame's block at once: its entry is ours to switch only
// while we hold it and it still maps here.
bool CompactionRun::hold_alien(BlockId block) {
  if (!core_.table->try_hold(block)) return false;
  if (core_.table->lookup(block).frame() == source_->id) return true;
  core_.table->one_gone(block);
  return false;
}

// Slots at the destination: the same ones where they are free, so that hints stay
// right, and else the next free ones, where a search from the hint soon finds them.
bool CompactionRun::reserve(Frame& to, const std::vector<std::uint32_t>& from,
                            std::vector<std::uint32_t>& out) {
  SpinGuard lock(to.lock);
  if (to.free_count < from.size()) return false;
  constexpr std::uint32_t kNone = UINT32_MAX;
  for (const std::uint32_t slot : from) out.push_back(to.try_take(slot) ? slot : kNone);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint32_t& slot = out[i];
    if (slot == kNone) slot = *to.take_near(from[i]);
  }
  return true;
}

bool CompactionRun::advance_transit(CompactionCounters& counters) {
  Transit& transit = *transit_;
  while (transit.next < transit.from_slots.size()) {
    Step step = Step::kHeld;
    for (int i = 0; i < kHeldSpins && step == Step::kHeld; ++i) {
      step = move_object(transit.from_slots[transit.next], transit.to_slots[transit.next]);
      if (step == Step::kHeld) sync::cpu_pause();
    }
    if (step == Step::kHeld) return false;
    if (step == Step::kMoved) {
      ++counters.objects_moved;
      counters.bytes_moved += source_->slot_bytes();
      transit.from_slots[transit.next] = UINT32_MAX;  // Its place at the destination is used.
    }
    ++transit.next;
  }
  end_transit(counters);
  return true;
}

// H1 to H3 of header_word.h.
CompactionRun::Step CompactionRun::move_object(std::uint32_t from_slot, std::uint32_t to_slot) {
  Frame& to = *transit_->to;
  const auto header = source_->header(from_slot);
  const HeaderWord word(header.load(std::memory_order_acquire));
  if (word.is_free()) return Step::kGone;
  YONDER_DCHECK(word.home() == transit_->block, "a seized frame gets no new members");
  if (word.state() != SlotState::kLive) return Step::kHeld;
  std::uint64_t expected = word.bits();
  // acquire: pairs with the release of the last writer; the payload is complete.
  if (!header.compare_exchange_strong(expected, word.with_state(SlotState::kMoving).bits(),
                                      std::memory_order_acquire, std::memory_order_relaxed)) {
    return Step::kHeld;
  }
  if (!word.is_blank()) core_.layouts[class_].move(source_->slot(from_slot), to.slot(to_slot), word);
  if (transit_->is_native) core_.table->one_left(word.home());
  if (core_.options.correction == Correction::kIndex && from_slot != to_slot) {
    core_.displaced.put(word.home(), word.id(), to_slot);
  }
  // Each release pairs with the acquire of whoever reads the header next: the copy
  // is complete before it can be found, and the source says "moved" before anybody
  // can write the copy (H3).
  to.header(to_slot).store(word.with_state(SlotState::kMoving).bits(), std::memory_order_release);
  header.store(HeaderWord::moved_to(to.id, to_slot).bits(), std::memory_order_release);
  to.header(to_slot).store(word.bits(), std::memory_order_release);
  return Step::kMoved;
}

// R3: the switch.
void CompactionRun::end_transit(CompactionCounters& counters) {
  Transit transit = *std::exchange(transit_, std::nullopt);
  core_.table->publish(transit.block, transit.to->id, class_);
  std::uint32_t moved = 0;
  {
    SpinGuard lock(transit.to->lock);
    for (std::size_t i = 0; i < transit.from_slots.size(); ++i) {
      if (transit.from_slots[i] == UINT32_MAX) {
        ++moved;
      } else {
        transit.to->put(transit.to_slots[i]);  // Freed before it could move.
      }
    }
  }
  {
    SpinGuard lock(source_->lock);
    source_->moved_count += moved;
  }
  if (transit.is_native) {
    for (std::atomic<std::uint32_t>& block : source_->blocks()) {
      if (block.load(std::memory_order_relaxed) == transit.block.value()) {
        block.store(0, std::memory_order_relaxed);
      }
    }
    core_.table->close(transit.block);
  } else {
    core_.table->one_gone(transit.block);
  }
  ++counters.blocks_moved;
}

// Retires the sources that nothing is left in. At least some, whatever the time:
// every slice gets on.
bool CompactionRun::close_sources(Instant end, CompactionCounters& counters) {
  constexpr std::size_t kBetweenLooks = 32;
  std::size_t looked = 0;
  std::size_t kept = 0;
  bool late = false;
  for (const std::uint32_t index : opened_) {
    const bool leaving = next_move_ < plan_.moves.size() && plan_.moves[next_move_].source == index;
    if (++looked % kBetweenLooks == 0 && core_.clock.now() >= end) late = true;
    if (late || leaving || !try_retire(index, counters)) opened_[kept++] = index;
  }
  opened_.resize(kept);
  return late;
}

bool CompactionRun::try_retire(std::uint32_t index, CompactionCounters& counters) {
  Frame& frame = *frames_[index];
  {
    SpinGuard lock(frame.lock);
    // Otherwise a thread is between freeing a slot and saying so (I3 of frame.h).
    if (frame.free_count + frame.moved_count != frame.slots()) return false;
  }
  ++counters.frames_freed;
  counters.bytes_freed += frame.frame_bytes();
  frames_[index] = nullptr;
  if (source_ == &frame) source_ = nullptr;
  core_.pools[class_]->retire(frame);
  return true;
}

void CompactionRun::finish(CompactionCounters& counters) {
  Waiter waiter(core_.clock, kPatience);
  // The holder is a thread of this process in the middle of one copy: it lets go.
  while (transit_ && !advance_transit(counters)) {
    YONDER_CHECK(waiter.pause(), "an object is held for the time of a copy");
  }
  while (close_sources(core_.clock.now() + kPatience, counters)) {
  }
  for (Frame* frame : frames_) {
    if (frame != nullptr) core_.pools[class_]->give(*frame);
  }
  if (!plan_.moves.empty()) grace_ = core_.threads.start_grace();
  frames_.clear();
  occupancies_.clear();
  plan_ = {};
  opened_.clear();
  source_ = nullptr;
  running_ = false;
}

}  // namespace yonder::node::internal
