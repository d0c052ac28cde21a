// Moving objects out of a page while the program runs: to take garbage out of local memory, to
// bring together what is used (evacuate), and, where objects leave one by one, to keep what is
// used (disperse).
//
// A page is closed, the barrier shows that nobody holds it, its live granules are copied in
// order to the logs of the egress, used ones to the hot one and others to the cold one, and the
// page becomes kForwarded with a record of where everything went. Pointers are healed as they
// are used; none has to be found (ADR 29).
#include <algorithm>
#include <cstring>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/heap/internal/runtime.h"

namespace yonder::heap::internal {
namespace {

GranuleBits load(const AtomicGranuleBits& bits) {
  GranuleBits copy;
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = bits[i].load(std::memory_order_relaxed);
  return copy;
}

GranuleBits cold_of(const ForwardRecord& record) {
  GranuleBits cold;
  for (std::size_t i = 0; i < cold.size(); ++i) cold[i] = record.live[i] & ~record.hot[i];
  return cold;
}

// Calls f(first granule, count) for every run of set bits.
template <typename F>
void for_runs(const GranuleBits& bits, F&& f) {
  std::uint32_t granule = 0;
  while (granule < kGranulesPerPage) {
    if (!test(bits, granule)) {
      ++granule;
      continue;
    }
    const std::uint32_t first = granule;
    while (granule < kGranulesPerPage && test(bits, granule)) ++granule;
    f(first, granule - first);
  }
}

// So much of a page in use is not worth moving: it would be copied and nothing be gained.
constexpr std::uint32_t kMostlyUsed = kGranulesPerPage * 3 / 4;

}  // namespace

std::size_t Runtime::evacuate_now() {
  const sync::LockGuard lock(egress_mutex_);
  const std::uint32_t all = frame_limit_.load(std::memory_order_relaxed);
  return evacuate(all, all);
}

// ---------------------------------------------------------------- which pages

// Garbage is taken out where it is in the way: while there are frames and slots for all, it is not.
bool Runtime::is_garbage_in_the_way() const {
  return free_frames_.size() < frame_limit_.load(std::memory_order_relaxed) / 8 || is_short_of_slots();
}

std::size_t Runtime::evacuate(std::size_t want, std::size_t look_at) {
  look_at = std::min<std::size_t>(look_at, frame_limit_.load(std::memory_order_relaxed));
  std::size_t emptied = 0;
  while (emptied < want) {
    look_at -= collect_sparse(std::min(want - emptied, kFramesAtOnce), look_at);
    if (victims_.empty()) break;
    look_who_holds();
    const std::size_t now = move_unheld(false);
    emptied += now;
    if (now == 0) break;
  }
  egress_counters_.add(Count::kEvacuatedPages, emptied);
  return emptied;
}

// Local pages with much garbage, from where the hand is. How many frames it looked at.
std::size_t Runtime::collect_sparse(std::size_t want, std::size_t look_at) {
  const std::uint32_t frames = frame_limit_.load(std::memory_order_relaxed);
  const auto most = static_cast<std::uint16_t>(options_.evacuate_below * kGranulesPerPage);
  std::size_t seen = 0;
  for (; seen < look_at && victims_.size() < want; ++seen) {
    evacuation_hand_ = evacuation_hand_ + 1 < frames ? evacuation_hand_ + 1 : 0;
    const std::uint32_t page = g_view.infos[evacuation_hand_].page.load(std::memory_order_acquire);
    if (page == 0) continue;
    const std::uint16_t live = live_count_[page].load(std::memory_order_relaxed);
    if (live == 0 || live >= most || inbound_[page].load(std::memory_order_relaxed) != 0) continue;
    choose(evacuation_hand_, PageState::kClosed);
  }
  return seen;
}

// Makes room by object: what was used stays, what was not is written out alone. Nearly all of
// a page used: it gets its second chance. A page that may not be emptied leaves as one.
std::size_t Runtime::disperse(std::size_t want) {
  collect_by_clock(want, PageState::kClosed);
  look_who_holds();
  std::vector<Victim> whole;
  std::erase_if(victims_, [&](const Victim& victim) YONDER_NO_THREAD_SAFETY_ANALYSIS {
    if (is_held(victim)) return false;
    FrameInfo& info = g_view.infos[victim.frame];
    if (count(load(info.cards)) >= kMostlyUsed) {
      for (auto& word : info.cards) word.store(0, std::memory_order_relaxed);
      set_entry(victim.page, entry(victim.page).as(PageState::kLocal).next_stay());  // Closed and not held.
      return true;
    }
    if (may_empty(victim)) return false;
    whole.push_back(victim);
    return true;
  });
  const std::size_t moved = move_unheld(true);
  for (const Victim& victim : whole) change_state(victim.page, PageState::kLeaving);
  victims_ = std::move(whole);
  return moved + send_away();
}

// ---------------------------------------------------------------- moving

bool Runtime::may_empty(const Victim& victim) const {
  return inbound_[victim.page].load(std::memory_order_relaxed) == 0 && has_room_to_forward() &&
         !victim.before.fixed();
}

bool Runtime::has_room_to_forward() const {
  return forwarded_pages_.load(std::memory_order_relaxed) + kFramesAtOnce < page_count_ - slot_count_;
}

// Requires look_who_holds() since the victims were closed.
std::size_t Runtime::move_unheld(bool cold_to_slots) {
  moves_.clear();
  transfers_.clear();
  for (const Victim& victim : victims_) {
    Move move{.victim = victim, .bytes = g_view.frame(victim.frame), .record = {}};
    const bool free_to_go = !is_held(victim) && may_empty(victim);
    if (!free_to_go || !plan_move(move, cold_to_slots)) {
      // No frame for what was used: next time it goes out with the rest, which needs none.
      if (free_to_go && cold_to_slots)
        for (auto& word : g_view.infos[victim.frame].cards) word.store(0, std::memory_order_relaxed);
      change_state(victim.page, PageState::kLocal);
      continue;
    }
    moves_.push_back(move);
  }
  victims_.clear();
  return carry_out_moves(cold_to_slots);
}

std::size_t Runtime::carry_out_moves(bool cold_to_slots) {
  transfers_.clear();
  for (const Move& move : moves_) {
    copy_runs(move, true);
    if (cold_to_slots) {
      write_runs(move);
    } else {
      copy_runs(move, false);
    }
  }
  egress_counters_.add(Count::kObjectsWritten, transfers_.size());
  const Result<void> written = store_->write_many(transfers_);
  egress_error_.store(written ? ErrorCode::kOk : written.error().code(), std::memory_order_relaxed);
  // release: what was written is there.
  slots_unwritten_.store(false, std::memory_order_release);
  for (const Move& move : moves_) written ? finish_move(move) : cancel_move(move);
  return written ? moves_.size() : 0;
}

// ---------------------------------------------------------------- pages that are not here

bool Runtime::is_short_of_slots() const {
  return committed_pages_.load(std::memory_order_relaxed) > slot_count_ - slot_count_ / 8;
}

// Objects that come in alone leave holes in their pages, and a page is free only when its last
// object has gone. When far memory runs short, pages with few objects are read, and what is left
// in them is written together.
std::size_t Runtime::evacuate_absent() {
  // Pages of the paging mode come back as a whole, also one that is just being filled.
  if (options_.mode == Mode::kPaging) return 0;
  collect_sparse_absent();
  if (victims_.empty()) return 0;
  look_who_holds();
  moves_.clear();
  transfers_.clear();
  for (const Victim& victim : victims_) {
    std::byte* const bytes = staging_memory_.data() + moves_.size() * kPageBytes;
    Move move{.victim = victim, .bytes = bytes, .record = {}};
    // Also a page that records lead to: a pointer may then be several steps behind.
    const bool may_go = !is_held(victim) && !victim.before.fixed() && has_room_to_forward();
    if (!may_go || !plan_move(move, true)) {
      change_state(victim.page, PageState::kAbsent);
      continue;
    }
    moves_.push_back(move);
    transfers_.push_back(
        {.local = bytes, .bytes = kPageBytes, .offset = std::uint64_t{victim.before.index()} * kPageBytes});
  }
  victims_.clear();
  if (!store_->read_many(transfers_)) {
    for (const Move& move : moves_) cancel_move(move);
    return 0;
  }
  const std::size_t emptied = carry_out_moves(true);
  egress_counters_.add(Count::kEvacuatedPages, emptied);
  return emptied;
}

// The emptiest first: they cost the least and win the most, and few pointers are left behind that
// lead through their records. What counts as empty grows when once around finds nothing.
void Runtime::collect_sparse_absent() {
  constexpr std::uint32_t kEmptiest = kGranulesPerPage / 8;
  const auto most = static_cast<std::uint32_t>(options_.evacuate_below * kGranulesPerPage);
  if (!is_short_of_slots() || absent_below_ == 0) absent_below_ = kEmptiest;
  for (;;) {
    for (std::uint32_t step = 0; step < page_count_ && victims_.size() < kFramesAtOnce; ++step) {
      absent_hand_ = absent_hand_ + 1 < page_count_ ? absent_hand_ + 1 : 0;
      const PageEntry before = entry(absent_hand_);
      if (before.state() != PageState::kAbsent || absent_hand_ == slot_log_.page) continue;
      const std::uint16_t live = live_count_[absent_hand_].load(std::memory_order_relaxed);
      if (live == 0 || live >= absent_below_) continue;
      if (swap_entry(absent_hand_, before, before.as(PageState::kClosed)))
        victims_.push_back({.page = absent_hand_, .frame = 0, .before = before});
    }
    if (!victims_.empty() || absent_below_ >= most) return;
    absent_below_ *= 2;
  }
}

// Reserves the places. False: there is no room for them now.
bool Runtime::plan_move(Move& move, bool cold_to_slots) {
  ForwardRecord& record = move.record;
  record.live = load(live_[move.victim.page]);
  // A page that is not here was not used.
  const GranuleBits cards =
      move.victim.before.is_local() ? load(g_view.infos[move.victim.frame].cards) : GranuleBits{};
  for (std::size_t i = 0; i < cards.size(); ++i) record.hot[i] = cards[i] & record.live[i];
  const std::uint32_t hot = count(record.hot);
  const std::uint32_t cold = count(record.live) - hot;
  if (hot + cold == 0) return false;  // Dead: freed as such.
  Log& cold_log = cold_to_slots ? slot_log_ : cold_log_;
  if (!reserve_room(hot_log_, hot)) return false;
  if (!(cold_to_slots ? reserve_slot_room(cold) : reserve_room(cold_log_, cold))) return false;
  record.hot_page = hot_log_.page;
  record.hot_granule = hot_log_.used;
  record.cold_page = cold_log.page;
  record.cold_granule = cold_log.used;
  hot_log_.used += hot;
  cold_log.used += cold;
  return true;
}

bool Runtime::reserve_room(Log& log, std::uint32_t granules) {
  if (granules == 0 || log.has_room(granules)) return true;
  close_log(log);
  const auto page = try_new_page(slot_count_);
  if (!page) return false;
  const auto frame = free_frames_.take();
  if (!frame) {
    free_pages_.give_back(*page);
    committed_pages_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  start_log(log, *page, *frame, false);
  return true;
}

void Runtime::close_slot_log() {
  const Log closed = std::exchange(slot_log_, {});
  // release: what was written to its slot is there.
  filling_page_.store(0, std::memory_order_release);
  if (closed.page != 0 && closed.used < kGranulesPerPage)
    clear_live(closed.page, closed.used, kGranulesPerPage - closed.used);
}

// A page that is absent from the beginning: objects are written into its slot, and come in from
// there one by one.
bool Runtime::reserve_slot_room(std::uint32_t granules) {
  if (granules == 0 || slot_log_.has_room(granules)) return true;
  // release: seen before the page is seen to be closed. Its last objects are written with the batch.
  slots_unwritten_.store(true, std::memory_order_release);
  close_slot_log();
  const auto page = try_new_page(slot_count_);
  if (!page) return false;
  const auto slot = free_slots_.take();
  YONDER_CHECK(slot.has_value(), "there is a slot for every committed page");
  for (auto& word : live_[*page]) word.store(~std::uint64_t{0}, std::memory_order_relaxed);
  live_count_[*page].store(kGranulesPerPage, std::memory_order_relaxed);
  slot_log_ = {.page = *page};
  filling_page_.store(*page, std::memory_order_release);
  set_entry(*page, entry(*page).arrived(0).gone(*slot));  // A stay of its own, though not a local one.
  return true;
}

// Into the log's frame, in order; cards go with their objects.
void Runtime::copy_runs(const Move& move, bool hot) {
  const ForwardRecord& record = move.record;
  const GranuleBits bits = hot ? record.hot : cold_of(record);
  const std::uint32_t granules = count(bits);
  if (granules == 0) return;
  const PageEntry target = entry(hot ? record.hot_page : record.cold_page);
  std::uint32_t to = hot ? record.hot_granule : record.cold_granule;
  std::byte* const frame = g_view.frame(target.index());
  const std::byte* const from = move.bytes;
  // In object mode what stays must be used again to stay once more.
  const bool keep_cards = hot && options_.mode != Mode::kObject;
  for_runs(bits, [&](std::uint32_t first, std::uint32_t length) {
    std::memcpy(frame + std::size_t{to} * kGranuleBytes, from + std::size_t{first} * kGranuleBytes,
                std::size_t{length} * kGranuleBytes);
    if (keep_cards) {
      for_granule_words(to, length, [&](std::uint32_t i, std::uint64_t mask) {
        g_view.infos[target.index()].cards[i].fetch_or(mask, std::memory_order_relaxed);
      });
    }
    to += length;
  });
}

// Into the slot of the cold page, each run by a request of its own.
void Runtime::write_runs(const Move& move) {
  const ForwardRecord& record = move.record;
  const GranuleBits bits = cold_of(record);
  if (count(bits) == 0) return;
  const std::uint64_t slot = entry(record.cold_page).index();
  std::uint64_t to = slot * kPageBytes + record.cold_granule * kGranuleBytes;
  std::byte* const from = move.bytes;
  // Not analysed: a lambda does not know that we hold the lock.
  for_runs(bits, [&](std::uint32_t first, std::uint32_t length) YONDER_NO_THREAD_SAFETY_ANALYSIS {
    const auto bytes = static_cast<std::uint32_t>(length * kGranuleBytes);
    transfers_.push_back({.local = from + std::size_t{first} * kGranuleBytes, .bytes = bytes, .offset = to});
    to += bytes;
  });
}

// From here on the objects are where the record says.
void Runtime::finish_move(const Move& move) {
  const auto number = free_records_.take();
  YONDER_CHECK(number.has_value(), "there is a record for every page");
  const ForwardRecord& record = move.record;
  records_[*number] = record;
  const auto add_inbound = [this](std::uint32_t page, std::uint32_t granules) {
    inbound_[page].fetch_add(static_cast<std::uint16_t>(granules), std::memory_order_relaxed);
  };
  if (const std::uint32_t hot = count(record.hot)) add_inbound(record.hot_page, hot);
  if (const std::uint32_t cold = count(cold_of(record))) add_inbound(record.cold_page, cold);
  forwarded_pages_.fetch_add(1, std::memory_order_relaxed);
  const Victim& victim = move.victim;
  const bool was_local = victim.before.is_local();
  const std::uint32_t slot =
      was_local ? g_view.infos[victim.frame].slot.load(std::memory_order_relaxed) : victim.before.index();
  set_entry(victim.page, entry(victim.page).at(PageState::kForwarded, *number));
  if (slot != kNoSlot) free_slots_.give_back(slot);
  if (was_local) release_frame(victim.frame);
  committed_pages_.fetch_sub(1, std::memory_order_relaxed);
}

// The objects stay; the places that were reserved for them are garbage.
void Runtime::cancel_move(const Move& move) {
  const ForwardRecord& record = move.record;
  if (const std::uint32_t hot = count(record.hot)) clear_live(record.hot_page, record.hot_granule, hot);
  if (const std::uint32_t cold = count(cold_of(record)))
    clear_live(record.cold_page, record.cold_granule, cold);
  change_state(move.victim.page, move.victim.before.state());
}

}  // namespace yonder::heap::internal
