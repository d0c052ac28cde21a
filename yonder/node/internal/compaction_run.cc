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

CompactionRun::Outcome CompactionRun::slice(std::uint32_t max_frames, const SliceLimits& limits,
                                            CompactionCounters& counters) {
  const Instant start = core_.clock.now();
  const Instant end = start + limits.time;
  if (phase_ == Phase::kIdle) {
    if (stuck_ && !try_free_stuck(counters)) return Outcome::kNothing;  // R5
    if (grace_ && !grace_->is_over()) return Outcome::kTooEarly;        // R4
    begin(max_frames);
  }
  const bool collecting = phase_ == Phase::kCollecting;
  // A phase that ends leaves the rest of its time to the next.
  if (phase_ == Phase::kCollecting) collect(end, counters);
  if (phase_ == Phase::kMoving) move_blocks(end, limits.blocks, counters);
  if (phase_ == Phase::kGiving) give_some(end);
  const auto took = static_cast<std::uint64_t>((core_.clock.now() - start).count());
  ++counters.slices;
  std::uint64_t& total = collecting ? counters.collection_ns : counters.moving_ns;
  std::uint64_t& longest = collecting ? counters.longest_collection_ns : counters.longest_slice_ns;
  total += took;
  longest = std::max(longest, took);
  if (phase_ != Phase::kGiving || next_given_ != collection_.frames.size()) return Outcome::kMore;
  return finish();
}

void CompactionRun::begin(std::uint32_t max_frames) {
  grace_.reset();
  next_move_ = 0;
  next_given_ = 0;
  collection_.start(max_frames, std::exchange(draining_, {}));
  phase_ = Phase::kCollecting;
}

void CompactionRun::collect(Instant end, CompactionCounters& counters) {
  if (!collection_.advance(end)) return;
  if (collection_.plan.freed.empty()) {
    phase_ = Phase::kGiving;
    return;
  }
  ++counters.runs;
  mark_empty_sources();
  phase_ = Phase::kMoving;
}

void CompactionRun::mark_empty_sources() {
  for (const std::uint32_t index : collection_.plan.freed) {
    if (collection_.occupancies[index].blocks.empty()) mark_source(index);
  }
}

// From here on objects leave this frame.
void CompactionRun::mark_source(std::uint32_t index) {
  opened_.push_back(index);
  SpinGuard lock(collection_.frames[index]->lock);
  collection_.frames[index]->state = FrameState::kDraining;
}

void CompactionRun::open_source(std::uint32_t index) {
  mark_source(index);
  source_ = collection_.frames[index];
  source_index_ = index;
  members_.clear();
  for (std::uint32_t slot = 0; slot < source_->slots(); ++slot) {
    const HeaderWord word = source_->load_header(slot);
    if (!word.is_free() && !word.is_moved()) members_.push_back({word.home().value(), slot});
  }
  std::ranges::sort(members_);
}

void CompactionRun::move_blocks(Instant end, std::uint32_t blocks, CompactionCounters& counters) {
  const std::vector<PackingMove>& moves = collection_.plan.moves;
  for (std::uint32_t moved = 0; transit_ || next_move_ < moves.size();) {
    if (!transit_ && !start_transit(moves[next_move_])) {
      ++next_move_;
      continue;
    }
    const Progress progress = advance_transit(counters);
    if (progress == Progress::kHeld) break;
    if (progress == Progress::kStuck) {
      next_move_ = moves.size();
      break;
    }
    ++next_move_;
    if (++moved >= blocks || core_.clock.now() >= end) break;
  }
  const bool unclosed = close_sources(end, counters);
  if (!transit_ && next_move_ >= moves.size() && !unclosed) phase_ = Phase::kGiving;
}

// False if the block has no object left, or (never, by R2) no room.
bool CompactionRun::start_transit(const PackingMove& move) {
  if (source_ == nullptr || source_index_ != move.source) open_source(move.source);
  Transit transit;
  transit.block = collection_.occupancies[move.source].blocks[move.block];
  transit.from = source_;
  transit.to = collection_.frames[move.destination];
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

CompactionRun::Progress CompactionRun::advance_transit(CompactionCounters& counters) {
  Transit& transit = *transit_;
  while (transit.next < transit.from_slots.size()) {
    Step step = Step::kHeld;
    for (int i = 0; i < kHeldSpins && step == Step::kHeld; ++i) {
      step = move_object(transit.from_slots[transit.next], transit.to_slots[transit.next]);
      if (step == Step::kHeld) sync::cpu_pause();
    }
    if (step == Step::kHeld) return Progress::kHeld;
    if (step == Step::kMoved) {
      ++counters.objects_moved;
      counters.bytes_moved += source_->slot_bytes();
      transit.from_slots[transit.next] = UINT32_MAX;  // Its place at the destination is used.
    }
    ++transit.next;
  }
  const Transit arrived = *std::exchange(transit_, std::nullopt);
  settle(arrived);
  if (try_switch(arrived, counters)) return Progress::kArrived;
  stuck_ = arrived;
  ++counters.switches_refused;
  return Progress::kStuck;
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
  const auto& on_move = core_.options.compaction.on_move;
  if (on_move) on_move(MoveStage::kLocked, word.home(), word.id());
  if (!word.is_blank()) core_.layouts[class_].move(source_->slot(from_slot), to.slot(to_slot), word);
  if (transit_->is_native) core_.table->one_left(word.home());
  if (from_slot != to_slot) core_.note_displaced(word.home(), word.id(), to_slot);
  // Each release pairs with the acquire of whoever reads the header next: the copy
  // is complete before it can be found, and the source says "moved" before anybody
  // can write the copy (H3).
  to.header(to_slot).store(word.with_state(SlotState::kMoving).bits(), std::memory_order_release);
  if (on_move) on_move(MoveStage::kCopied, word.home(), word.id());
  header.store(HeaderWord::moved_to(to.id, to_slot).bits(), std::memory_order_release);
  if (on_move) on_move(MoveStage::kLinked, word.home(), word.id());
  to.header(to_slot).store(word.bits(), std::memory_order_release);
  if (on_move) on_move(MoveStage::kDone, word.home(), word.id());
  return Step::kMoved;
}

void CompactionRun::settle(const Transit& transit) {
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
  SpinGuard lock(transit.from->lock);
  transit.from->moved_count += moved;
}

// R3: no object of the block is left in the source.
bool CompactionRun::try_switch(const Transit& transit, CompactionCounters& counters) {
  if (!core_.table->publish(transit.block, transit.to->id, class_)) return false;
  if (transit.is_native) {
    for (std::atomic<std::uint32_t>& block : transit.from->blocks()) {
      if (block.load(std::memory_order_relaxed) == transit.block.value()) {
        block.store(0, std::memory_order_relaxed);
      }
    }
    core_.table->close(transit.block);
  } else {
    core_.table->one_gone(transit.block);
  }
  ++counters.blocks_moved;
  return true;
}

bool CompactionRun::try_free_stuck(CompactionCounters& counters) {
  if (!try_switch(*stuck_, counters)) {
    ++counters.switches_refused;
    return false;
  }
  core_.pools[class_]->give(*std::exchange(stuck_, std::nullopt)->to);
  grace_ = core_.threads.start_grace();  // R4: its moved words could be followed until now.
  return true;
}

// Retires the sources that nothing is left in. At least one, whatever the time: every
// slice gets on. (Retiring may give memory back to the system, which takes a while.)
bool CompactionRun::close_sources(Instant end, CompactionCounters& counters) {
  std::size_t kept = 0;
  bool late = false;
  for (const std::uint32_t index : opened_) {
    const bool leaving =
        next_move_ < collection_.plan.moves.size() && collection_.plan.moves[next_move_].source == index;
    const bool stuck = stuck_ && stuck_->from == collection_.frames[index];
    if (late || leaving || stuck || !try_retire(index, counters))
      opened_[kept++] = index;
    else
      late = core_.clock.now() >= end;
  }
  opened_.resize(kept);
  return late;
}

bool CompactionRun::try_retire(std::uint32_t index, CompactionCounters& counters) {
  Frame& frame = *collection_.frames[index];
  {
    SpinGuard lock(frame.lock);
    // Otherwise a thread is between freeing a slot and saying so (I3 of frame.h).
    if (frame.free_count + frame.moved_count != frame.slots()) return false;
  }
  ++counters.frames_freed;
  counters.bytes_freed += frame.frame_bytes();
  collection_.frames[index] = nullptr;
  if (source_ == &frame) source_ = nullptr;
  core_.pools[class_]->retire(frame);
  return true;
}

void CompactionRun::give_some(Instant end) {
  constexpr std::size_t kBetweenLooks = 16;
  for (std::size_t given = 1; next_given_ < collection_.frames.size(); ++given) {
    Frame* frame = collection_.frames[next_given_++];
    // Those that the run began to empty and did not are the next run's, and so is where
    // a stuck block is.
    const bool stuck = stuck_ && stuck_->to == frame;
    if (frame != nullptr && frame->state == FrameState::kDraining)
      draining_.push_back(frame);
    else if (frame != nullptr && !stuck)
      core_.pools[class_]->give(*frame);
    if (given % kBetweenLooks == 0 && core_.clock.now() >= end) break;
  }
}

CompactionRun::Outcome CompactionRun::finish() {
  const bool gained = !collection_.plan.freed.empty();
  if (!collection_.plan.moves.empty()) grace_ = core_.threads.start_grace();
  collection_.frames.clear();
  collection_.occupancies.clear();
  collection_.plan = {};
  opened_.clear();
  source_ = nullptr;
  phase_ = Phase::kIdle;
  return gained ? Outcome::kDone : Outcome::kNothing;
}

void CompactionRun::stop(CompactionCounters& counters) {
  const Instant patience = core_.clock.now() + kPatience;
  Waiter waiter(core_.clock, kPatience);
  // The holder is a thread of this process in the middle of one copy: it lets go.
  while (transit_ && advance_transit(counters) == Progress::kHeld) {
    YONDER_CHECK(waiter.pause(), "an object is held for the time of a copy");
  }
  // What nobody planned with is nobody's source.
  if (phase_ == Phase::kCollecting) collection_.plan = {};
  while (close_sources(patience, counters)) {
  }
  while (next_given_ < collection_.frames.size()) give_some(patience);
  finish();
}

}  // namespace yonder::node::internal
