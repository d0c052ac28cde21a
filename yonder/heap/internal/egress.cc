// How pages leave: chosen by a clock hand, freed of holders by one barrier for all of them,
// written in one go, and dropped.
#include <time.h>

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/heap/internal/runtime.h"
#include "yonder/os/steady_clock.h"

namespace yonder::heap::internal {
namespace {

GranuleBits load(const AtomicGranuleBits& bits) {
  GranuleBits copy;
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = bits[i].load(std::memory_order_relaxed);
  return copy;
}

// What the calling thread has used of a core: others' turns do not count.
std::uint64_t cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::size_t Runtime::make_room(std::size_t want) {
  const std::uint64_t begin = cpu_ns();
  collect_dead();
  const std::size_t alive = want > dying_.size() ? want - dying_.size() : 0;
  std::size_t freed = 0;
  if (options_.mode == Mode::kObject) {
    freed = free_dead();
    if (alive != 0) freed += disperse(alive);
  } else {
    if (alive != 0) collect_by_clock(alive, PageState::kLeaving);
    look_who_holds();
    freed = free_dead() + send_away();
  }
  egress_counters_.add(Count::kEgressNs, cpu_ns() - begin);
  return freed;
}

// ---------------------------------------------------------------- choosing

// Second chance: what was touched since the hand came by last is passed over once.
void Runtime::collect_by_clock(std::size_t want, PageState as) {
  const std::uint32_t frames = frame_limit_.load(std::memory_order_relaxed);
  for (std::uint32_t step = 0; step < 2 * frames && victims_.size() < want; ++step) {
    hand_ = hand_ + 1 < frames ? hand_ + 1 : 0;
    const std::uint32_t page = g_view.infos[hand_].page.load(std::memory_order_acquire);
    if (page == 0) continue;
    if (entry(page).referenced()) {
      // relaxed: a hint; whoever uses the page sets it again.
      g_view.entries[page].fetch_and(~PageEntry::kReferenced, std::memory_order_relaxed);
      continue;
    }
    choose(hand_, as);
  }
}

void Runtime::collect_frames_from(std::uint32_t first_frame) {
  for (std::uint32_t frame = first_frame; frame < frame_count_ && victims_.size() < kFramesAtOnce; ++frame)
    choose(frame, PageState::kLeaving);
  look_who_holds();
}

bool Runtime::choose(std::uint32_t frame, PageState as) {
  FrameInfo& info = g_view.infos[frame];
  const std::uint32_t page = info.page.load(std::memory_order_acquire);
  if (page == 0 || info.pins.load(std::memory_order_relaxed) != 0) return false;
  const PageEntry before = entry(page);
  if (!before.is_local() || before.index() != frame) return false;
  if (!swap_entry(page, before, before.as(as))) return false;
  victims_.push_back({.page = page, .frame = frame, .before = before});
  return true;
}

// One barrier for everything that was chosen: H1.
void Runtime::look_who_holds() {
  if (victims_.empty() && dying_.empty()) return;
  // release: whoever sees what we do next with a page sees that there was a barrier.
  barriers_.fetch_add(1, std::memory_order_release);
  in_use_.refresh(domain_);
}

bool Runtime::is_held(const Victim& victim) const {
  if (in_use_.contains(victim.page)) return true;
  // acquire: pairs with the end of a pin. Read after the slots: a pin is raised under a slot.
  return victim.before.is_local() && g_view.infos[victim.frame].pins.load(std::memory_order_acquire) != 0;
}

// ---------------------------------------------------------------- leaving

// Requires look_who_holds() since the victims were chosen.
std::size_t Runtime::send_away() {
  keep_departing();
  const Result<void> written = write_victims();
  egress_error_.store(written ? ErrorCode::kOk : written.error().code(), std::memory_order_relaxed);
  std::size_t freed = 0;
  for (const Victim& victim : victims_) freed += finish_victim(victim, written.has_value()) ? 1 : 0;
  victims_.clear();
  return freed;
}

// Drops from the victims what somebody holds or has taken back.
void Runtime::keep_departing() {
  std::uint32_t held = 0;
  std::erase_if(victims_, [&](const Victim& victim) YONDER_NO_THREAD_SAFETY_ANALYSIS {
    const bool stays = is_held(victim) || live_count_[victim.page].load(std::memory_order_relaxed) == 0;
    held += stays ? 1 : 0;
    for (;;) {
      const PageEntry now = entry(victim.page);
      if (now.state() != PageState::kLeaving) return true;  // Somebody took it back.
      if (swap_entry(victim.page, now, now.as(stays ? PageState::kLocal : PageState::kDeparting)))
        return stays;
    }
  });
  // relaxed: a measure of how much is held, for the live-lock guard.
  held_victims_.store(held * 2 > victims_.size() ? held : 0, std::memory_order_relaxed);
}

Result<void> Runtime::write_victims() {
  transfers_.clear();
  for (const Victim& victim : victims_) {
    FrameInfo& info = g_view.infos[victim.frame];
    if (!entry(victim.page).dirty()) {
      egress_counters_.add(Count::kPagesDropped);
      continue;
    }
    std::uint32_t slot = info.slot.load(std::memory_order_relaxed);
    if (slot == kNoSlot) {
      const auto taken = free_slots_.take();
      YONDER_CHECK(taken.has_value(), "there is a slot for every committed page");
      slot = *taken;
      info.slot.store(slot, std::memory_order_relaxed);
    }
    transfers_.push_back({.local = g_view.frame(victim.frame),
                          .bytes = kPageBytes,
                          .offset = std::uint64_t{slot} * kPageBytes});
  }
  egress_counters_.add(Count::kPagesWritten, transfers_.size());
  return store_->write_many(transfers_);
}

// True if its frame is free now.
bool Runtime::finish_victim(const Victim& victim, bool written) {
  const FrameInfo& info = g_view.infos[victim.frame];
  const bool by_page = comes_back_by_page(info, victim);
  for (;;) {
    const PageEntry now = entry(victim.page);
    const bool lost = now.dirty() && !written;
    const bool stays = now.wanted() || lost;
    PageEntry next = now.gone(info.slot.load(std::memory_order_relaxed)).on_path(by_page);
    if (stays) next = now.as(PageState::kLocal).with(PageEntry::kReferenced);
    if (stays && !lost) next.bits &= ~PageEntry::kDirty;  // It was written.
    if (!swap_entry(victim.page, now, next)) continue;    // It has become wanted.
    if (stays) return false;
    if (by_page != victim.before.by_page())
      egress_counters_.add(by_page ? Count::kFlipsToPage : Count::kFlipsToObject);
    if (info.read_ahead.load(std::memory_order_relaxed) != 0) {
      // Read ahead for nothing: a smaller window next time.
      const std::uint32_t limit = read_ahead_limit_.load(std::memory_order_relaxed);
      if (limit > 2) read_ahead_limit_.store(limit - 1, std::memory_order_relaxed);
    }
    release_frame(victim.frame);
    return true;
  }
}

// The path flag, decided here and nowhere else (A1). The share is of what is live, so that an
// unused end does not count against a page; but a page that is mostly garbage is better taken
// apart.
bool Runtime::comes_back_by_page(const FrameInfo& info, const Victim& victim) {
  if (options_.mode == Mode::kPaging || victim.before.fixed()) return true;
  if (options_.mode == Mode::kObject) return false;
  if (held_victims_.load(std::memory_order_relaxed) != 0) return true;  // The live-lock guard.
  GranuleBits used = load(info.cards);
  const GranuleBits live = load(live_[victim.page]);
  for (std::size_t i = 0; i < used.size(); ++i) used[i] &= live[i];
  const double share = static_cast<double>(count(used)) /
                       static_cast<double>(std::max<std::uint32_t>(count(live), kGranulesPerPage / 2));
  const bool came_by_page = info.slot.load(std::memory_order_relaxed) != kNoSlot && victim.before.by_page();
  if (came_by_page) {
    note_page_in(share >= options_.page_above);
    if (share >= options_.page_above) return true;
  } else if (share >= options_.page_above) {
    return expects_pages_to_pay();
  }
  if (share < options_.object_below) return false;
  return victim.before.by_page();
}

// A page that was filled by a log has been used together once, which does not prove that it will
// be again: random accesses fill pages, too. So it is believed as far as pages before it have
// come true: the share of those that came in by page and were then used, lately. One in sixteen
// is tried in any case, so that a change of the program is noticed.
bool Runtime::expects_pages_to_pay() {
  constexpr std::uint32_t kTrial = 16;
  return pages_that_paid_ >= 0.5 || ++unproved_pages_ % kTrial == 0;
}

void Runtime::note_page_in(bool paid) {
  constexpr double kWeight = 1.0 / 64;
  pages_that_paid_ += kWeight * ((paid ? 1.0 : 0.0) - pages_that_paid_);
}

// ---------------------------------------------------------------- pages without objects

void Runtime::collect_dead() {
  if (dead_pages_.size() == 0) return;
  store_->poll();  // One that is being read ahead cannot go before it has come.
  unsettled_.clear();
  while (dying_.size() < kFramesAtOnce && unsettled_.size() < kFramesAtOnce) {
    const auto page = dead_pages_.take();
    if (!page) break;
    const PageEntry before = entry(*page);
    const bool settled = before.state() == PageState::kLocal || before.state() == PageState::kAbsent ||
                         before.state() == PageState::kForwarded;
    if (settled && swap_entry(*page, before, before.as(PageState::kClosed))) {
      dying_.push_back({.page = *page, .frame = before.is_local() ? before.index() : 0, .before = before});
    } else {
      unsettled_.push_back(*page);
    }
  }
  for (const std::uint32_t page : unsettled_) dead_pages_.give_back(page);
}

// Requires look_who_holds() since collect_dead(). How many frames are free now.
std::size_t Runtime::free_dead() {
  std::size_t freed = 0;
  for (const Victim& dead : dying_) {
    if (is_held(dead)) {
      change_state(dead.page, dead.before.state());
      dead_pages_.give_back(dead.page);
      continue;
    }
    freed += free_page(dead.page, dead.before) ? 1 : 0;
  }
  dying_.clear();
  return freed;
}

std::size_t Runtime::free_dead_pages() {
  collect_dead();
  look_who_holds();
  return free_dead();
}

// True if a frame is free now.
bool Runtime::free_page(std::uint32_t page, PageEntry before) {
  if (before.is_local()) {
    const std::uint32_t slot = g_view.infos[before.index()].slot.load(std::memory_order_relaxed);
    if (slot != kNoSlot) free_slots_.give_back(slot);
    release_frame(before.index());
  } else if (before.state() == PageState::kAbsent) {
    free_slots_.give_back(before.index());
  } else {
    free_records_.give_back(before.index());
    forwarded_pages_.fetch_sub(1, std::memory_order_relaxed);
  }
  // A forwarded page gave its claim to a slot back when it was emptied.
  if (before.state() != PageState::kForwarded) committed_pages_.fetch_sub(1, std::memory_order_relaxed);
  // The stamp stays, so that pointers of the page's next life are not taken for marked.
  set_entry(page, {entry(page).bits & PageEntry::kStampMask});
  free_pages_.give_back(page);
  return before.is_local();
}

// ---------------------------------------------------------------- the background

bool Runtime::is_short_of_frames() const {
  const std::uint32_t limit = frame_limit_.load(std::memory_order_relaxed);
  return free_frames_.size() < std::clamp<std::uint32_t>(limit / 64, 8, 4 * kFramesAtOnce);
}

void Runtime::wake_janitor() {
  if (janitor_wanted_.load(std::memory_order_relaxed)) return;
  janitor_wanted_.store(true, std::memory_order_relaxed);
  janitor_wakes_.notify_one();
}

void Runtime::janitor() {
  constexpr Duration kPeriod = std::chrono::milliseconds(10);
  for (;;) {
    {
      sync::LockGuard lock(janitor_mutex_);
      if (stopping_) return;
      if (!janitor_wanted_.load(std::memory_order_relaxed))
        (void)janitor_wakes_.wait(lock, Deadline::at(os::SteadyClock::read() + kPeriod));
      if (stopping_) return;
    }
    janitor_wanted_.store(false, std::memory_order_relaxed);
    const sync::LockGuard lock(egress_mutex_);
    const std::uint32_t freed = sparse_hint_.load(std::memory_order_relaxed);
    if (options_.evacuate && freed > kFramesAtOnce && is_garbage_in_the_way()) {
      sparse_hint_.store(0, std::memory_order_relaxed);
      evacuate(kFramesAtOnce, std::size_t{freed} * kFramesPerFreed);
    }
    while (dead_pages_.size() > kFramesAtOnce / 2 && free_dead_pages() != 0) {
    }
    if (is_short_of_slots()) evacuate_absent();
    while (is_short_of_frames() && make_room(kFramesAtOnce) != 0) {
    }
  }
}

}  // namespace yonder::heap::internal
