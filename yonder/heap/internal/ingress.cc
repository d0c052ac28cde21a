// How objects come in: the slow paths of the barrier.
#include <algorithm>
#include <cstring>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/heap/internal/barrier.h"
#include "yonder/heap/internal/runtime.h"
#include "yonder/os/steady_clock.h"
#include "yonder/sync/atomics.h"
#include "yonder/sync/spin.h"

namespace yonder::heap::internal {
namespace {

// Waiting for another thread to finish with a page: it is a matter of microseconds, unless that
// thread has lost its core or the node is slow.
class Patience {
 public:
  void wait(SlotStore& store) {
    store.poll();  // What we wait for may be a read that nobody else polls for.
    ++rounds_;
    if (rounds_ < 64) {
      sync::cpu_pause();
    } else if (rounds_ < 256) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  unsigned rounds_ = 0;
};

}  // namespace

Runtime::Published Runtime::publish(ThreadState& thread, std::uint32_t page) {
  const auto first_free = [page](std::span<HazardSlot> slots) -> HoldWord {
    for (HazardSlot& slot : slots) {
      if (slot.load(std::memory_order_relaxed) != 0) continue;  // Our own.
      slot.store(page, std::memory_order_release);
      sync::StdAtomics::compiler_fence();  // The domain is asymmetric.
      return hold_of(&slot);
    }
    return 0;
  };
  if (const HoldWord hold = first_free(thread.holds.slots())) return {PageHold(hold), true};
  const HoldWord hold = first_free(thread.scratch.slots());
  YONDER_CHECK(hold != 0, "the runtime's own holds are few");
  return {PageHold(hold), false};
}

// Requires that the frame's page is held (H1), or pinned already.
HoldWord Runtime::pin(std::uint32_t frame) {
  g_view.infos[frame].pins.fetch_add(1, std::memory_order_relaxed);
  return hold_of(&g_view.infos[frame]);
}

Result<Entered> Runtime::enter(std::atomic<std::uint64_t>& at, Access access) {
  ThreadState& state = thread();
  Patience patience;
  for (bool is_hit = true;; is_hit = false) {
    const PointerWord word{at.load(std::memory_order_acquire)};
    YONDER_CHECK(!word.is_null(), "a null far pointer was dereferenced");
    auto [hold, lasts] = publish(state, word.page());
    if (at.load(std::memory_order_acquire) != word.bits) continue;  // H2
    const PageEntry now = entry(word.page());
    Result<void> came;
    switch (now.state()) {
      case PageState::kLocal:
        if (is_hit) state.counters.add(Count::kHits);
        if (!lasts) hold.reset(pin(now.index()));
        return Entered{finish_enter(at, word, now, access), hold.release(), word.bytes()};
      case PageState::kLeaving:
        swap_entry(word.page(), now, now.as(PageState::kLocal));
        continue;
      case PageState::kDeparting:
        if (!now.wanted()) swap_entry(word.page(), now, now.with(PageEntry::kWanted));
        break;
      case PageState::kAbsent:
        came = now.by_page() ? page_in(word.page(), now, word.bytes()) : object_in(at, word, now);
        if (came) continue;
        if (came.error() == ErrorCode::kResourceExhausted) {
          hold.reset();
          wake_janitor();  // It may find pages that are nearly empty.
          flip_to_page(word.page(), now);
          continue;
        }
        if (came.error() == ErrorCode::kOutOfMemory || !options_.wait_for_node) {
          return std::unexpected(came.error());
        }
        break;
      case PageState::kForwarded:
        heal(at, word, now);
        continue;
      case PageState::kArriving:
      case PageState::kClosed:
        break;
      case PageState::kFree:
        YONDER_CHECK(false, "a far pointer points to an object that was freed");
    }
    hold.reset();
    patience.wait(*store_);
  }
}

// The page is local and held.
std::byte* Runtime::finish_enter(std::atomic<std::uint64_t>& at, PointerWord word, PageEntry now,
                                 Access access) {
  FrameInfo& info = g_view.infos[now.index()];
  if (info.read_ahead.load(std::memory_order_relaxed) != 0) first_touch(info, word.page());
  add_flags(word.page(), now, PageEntry::kReferenced | (access == Access::kWrite ? PageEntry::kDirty : 0));
  for_granule_words(word.granule(), word.granules(), [&](std::uint32_t i, std::uint64_t mask) {
    if ((info.cards[i].load(std::memory_order_relaxed) & mask) != mask)
      info.cards[i].fetch_or(mask, std::memory_order_relaxed);
  });
  const PointerWord stamped = word.stamped(now.stamp_bits());
  std::uint64_t expected = word.bits;
  // relaxed: a hint for the barrier. If it fails somebody else was here.
  if (stamped != word) at.compare_exchange_strong(expected, stamped.bits, std::memory_order_relaxed);
  return g_view.frame(now.index()) + word.place();
}

// ---------------------------------------------------------------- by page

Result<void> Runtime::page_in(std::uint32_t page, PageEntry before, std::uint32_t bytes_wanted) {
  ThreadState& state = thread();
  if (!swap_entry(page, before, before.as(PageState::kArriving))) return {};  // Another was faster: A1.
  if (options_.read_ahead) read_ahead(state, page);
  const Result<std::uint32_t> frame = acquire_frame();
  if (!frame) {
    set_entry(page, before);
    return std::unexpected(frame.error());
  }
  const Result<void> read = store_->read({.local = g_view.frame(*frame),
                                          .bytes = kPageBytes,
                                          .offset = std::uint64_t{before.index()} * kPageBytes});
  if (!read) {
    release_frame(*frame);
    set_entry(page, before);
    return read;
  }
  fill_frame_info(*frame, page, before.index());
  set_entry(page, before.arrived(*frame));
  state.counters.add(Count::kPageIns);
  state.counters.add(Count::kBytesIn, kPageBytes);
  state.counters.add(Count::kBytesWanted, bytes_wanted);
  return {};
}

// ---------------------------------------------------------------- by object

// The caller holds the absent page `word` says, so neither the page nor its slot goes away (H3).
Result<void> Runtime::object_in(std::atomic<std::uint64_t>& at, PointerWord word, PageEntry from) {
  ThreadState& state = thread();
  if (!state.fetched.has_room(word.granules()) && is_full())
    return fail(ErrorCode::kResourceExhausted, "far heap: no page for an object that comes in");
  YONDER_TRY(placed, place(state.fetched, word.bytes()));
  const Result<void> read = read_object(state, word, from, placed.bytes);
  if (!read) {
    take_back(state.fetched, placed);
    return read;
  }
  std::uint64_t expected = word.bits;
  // acq_rel: who sees the new word sees the object's bytes.
  if (!at.compare_exchange_strong(expected, placed.word.bits, std::memory_order_acq_rel)) {
    take_back(state.fetched, placed);
    return {};
  }
  mark_dirty_at(&at);
  forget_object(word);
  state.counters.add(Count::kObjectIns);
  state.counters.add(Count::kBytesWanted, word.bytes());
  return {};
}

// From a copy of its page, or from the node: alone, or with its page (page_copies.h).
Result<void> Runtime::read_object(ThreadState& state, PointerWord word, PageEntry from, std::byte* to) {
  const std::uint64_t offset = std::uint64_t{from.index()} * kPageBytes;
  const std::size_t begin = word.place();
  const std::uint64_t barriers = barriers_.load(std::memory_order_acquire);
  if (take_early(state, word, {from, barriers}, to)) return {};
  if (options_.mode == Mode::kHybrid) {
    if (const std::byte* page = state.copies.find(word.page(), from, barriers)) {
      std::memcpy(to, page + begin, word.bytes());
      state.counters.add(Count::kObjectsFromCopies);
      return {};
    }
    // acquire, in this order: a page that is not being filled, when nothing is left to be written
    // of those that have been, is complete in its slot.
    const bool complete = filling_page_.load(std::memory_order_acquire) != word.page() &&
                          !slots_unwritten_.load(std::memory_order_acquire);
    if (state.copies.is_worth_it(word.page()) && complete) {
      std::byte* const copy = state.copies.next_room();
      YONDER_TRY_VOID(store_->read({.local = copy, .bytes = kPageBytes, .offset = offset}));
      state.copies.keep(word.page(), from, barriers);
      state.counters.add(Count::kPageCopies);
      state.counters.add(Count::kBytesIn, kPageBytes);
      std::memcpy(to, copy + begin, word.bytes());
      return {};
    }
  }
  state.counters.add(Count::kBytesIn, word.bytes());
  return store_->read({.local = to, .bytes = word.bytes(), .offset = offset + begin});
}

// All far memory is in use, so there is no page to bring an object in to: its own page has to
// come. Nobody may be fetching an object of it at that moment (A1).
void Runtime::flip_to_page(std::uint32_t page, PageEntry absent) {
  const sync::LockGuard lock(egress_mutex_);
  if (page == slot_log_.page) close_slot_log();  // What was written to it is complete: we have the lock.
  if (!swap_entry(page, absent, absent.as(PageState::kClosed))) return;
  dying_.push_back({.page = page, .frame = 0, .before = absent});
  look_who_holds();
  const bool held = is_held(dying_.back());
  dying_.pop_back();
  set_entry(page, held ? absent : absent.on_path(true));
}

// ---------------------------------------------------------------- moved objects

PointerWord Runtime::forwarded(PointerWord word, const ForwardRecord& record) const {
  GranuleBits group = record.hot;
  const bool is_hot = test(record.hot, word.granule());
  if (!is_hot)
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = record.live[i] & ~record.hot[i];
  const std::uint32_t behind = rank(group, word.granule());
  return is_hot ? word.at(record.hot_page, record.hot_granule + behind)
                : word.at(record.cold_page, record.cold_granule + behind);
}

// The caller holds the forwarded page, so its record stays (H3).
void Runtime::heal(std::atomic<std::uint64_t>& at, PointerWord word, PageEntry from) {
  const PointerWord moved = forwarded(word, records_[from.index()]);
  std::uint64_t expected = word.bits;
  if (!at.compare_exchange_strong(expected, moved.bits, std::memory_order_acq_rel)) return;
  mark_dirty_at(&at);
  forget_inbound(moved);
  forget_object(word);
  thread().counters.add(Count::kHealed);
}

// ---------------------------------------------------------------- waiting for a frame

Result<std::uint32_t> Runtime::acquire_frame() {
  if (const auto frame = try_acquire_frame()) return *frame;
  thread().counters.add(Count::kStalls);
  const Deadline deadline = Deadline::at(os::SteadyClock::read() + options_.timeout);
  Patience patience;
  for (;;) {
    if (egress_mutex_.try_lock()) {
      make_room(kFramesAtOnce);
      egress_mutex_.unlock();
    } else {
      patience.wait(*store_);
    }
    if (const auto frame = try_acquire_frame()) return *frame;
    if (!deadline.passed(os::SteadyClock::read())) continue;
    // relaxed: said as a reason, not relied on.
    const ErrorCode why = egress_error_.load(std::memory_order_relaxed);
    if (why != ErrorCode::kOk) return fail(why, "far heap: nothing can leave, the node does not answer");
    return fail(ErrorCode::kOutOfMemory, "far heap: all local memory is held by guards or pins",
                frame_limit_.load(std::memory_order_relaxed));
  }
}

}  // namespace yonder::heap::internal
