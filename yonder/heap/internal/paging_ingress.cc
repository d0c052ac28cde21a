#include "yonder/heap/internal/paging_ingress.h"

#include <algorithm>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/os/steady_clock.h"
#include "yonder/sync/spin.h"

namespace yonder::heap::internal {
namespace {

// Waits for somebody else's claim to end: mostly microseconds, a deadline at the worst.
class Patience {
 public:
  // False: the deadline has passed.
  bool wait(Deadline deadline) {
    if (++looks_ < kSpins) {
      sync::cpu_pause();
      return true;
    }
    std::this_thread::yield();
    return !deadline.passed(os::SteadyClock::read());
  }

 private:
  static constexpr int kSpins = 256;
  int looks_ = 0;
};

// Waking who waits for a lend costs as much as this pause, and lends are rare.
constexpr Duration kLookAtLend = std::chrono::microseconds(20);
constexpr Duration kRetryReadAfter = std::chrono::milliseconds(5);

}  // namespace

Result<std::size_t> PagingIngress::bring(const Wish& wish, Deadline deadline) {
  Patience patience;
  for (;;) {
    const PageWord word = core_.word(wish.page);
    if (is_lent_away(wish, word.state())) {
      // The lend's own time does not count against the patience with the store.
      const Instant begin = os::SteadyClock::read();
      std::this_thread::sleep_for(kLookAtLend);
      deadline = Deadline::at(deadline.instant() + (os::SteadyClock::read() - begin));
      continue;
    }
    switch (word.state()) {
      case PagingState::kFresh:
      case PagingState::kFar: {
        const Result<std::size_t> brought = bring_missing(wish, word, deadline);
        if (!brought) {
          if (deadline.passed(os::SteadyClock::read())) return brought;
          std::this_thread::sleep_for(kRetryReadAfter);
        } else if (*brought != 0) {
          return brought;
        }
        break;
      }
      case PagingState::kResident:
        if (!wish.write || word.dirty() || allow_write(wish.page, word)) return std::size_t{0};
        break;
      case PagingState::kLeaving:
        // Who reads can go on: the page is there until it is kBusy. Who writes rescues it.
        if ((!wish.write && !wish.stay) || allow_write(wish.page, word)) return std::size_t{0};
        break;
      case PagingState::kChosen:
        if (!wish.write && !wish.stay) return std::size_t{0};
        [[fallthrough]];  // The sweeper protects it just now: it can be rescued in a moment.
      case PagingState::kBusy:
        if (!patience.wait(deadline))
          return fail(ErrorCode::kDeadlineExceeded, "a page that another thread moves");
        break;
    }
  }
}

bool PagingIngress::is_lent_away(const Wish& wish, PagingState state) const {
  const bool is_missing = state == PagingState::kFresh || state == PagingState::kFar;
  switch (core_.lends().kind_of(wish.page)) {
    case LendKind::kNone:
      return false;
    case LendKind::kRead:
      return wish.write || state == PagingState::kFresh;  // Fresh ones become far in a moment.
    case LendKind::kWrite:
      return wish.write || wish.stay || is_missing;
  }
  return false;
}

Result<std::size_t> PagingIngress::bring_missing(const Wish& wish, PageWord word, Deadline deadline) {
  // Room for the page is waited for; those ahead come as far as there is room.
  YONDER_TRY_VOID(evictor_.reserve_one(deadline));
  std::size_t wanted = std::clamp<std::size_t>(wish.ahead, 1, staging_.pages());
  if (wanted > 1) wanted = 1 + evictor_.reserve_up_to(wanted - 1);
  Run run = claim_run(wish.page, word, wanted);
  // Lent since bring() looked: nobody may write it now.
  if (run.lent && wish.write) {
    for (; run.count != 0; --run.count) {
      const std::size_t page = run.first + run.count - 1;
      core_.settle(page, core_.word(page).with_state(run.from));
    }
  }
  core_.release(wanted - run.count);
  if (run.count == 0) return std::size_t{0};
  YONDER_TRY_VOID(fill(run, wish.write));
  return run.count;
}

PagingIngress::Run PagingIngress::claim_run(std::size_t first, PageWord word, std::size_t limit) {
  const PagingState from = word.state();
  Run run{.first = first, .count = 0, .from = from};
  const std::size_t end = std::min(first + limit, core_.pages());
  for (std::size_t page = first; page < end; ++page) {
    const PageWord now = page == first ? word : core_.word(page);
    if (now.state() != from || now.side() != word.side() || !core_.claim(page, now)) break;
    // After the claim (paging_lends.h).
    const LendKind lent = core_.lends().kind_of(page);
    const bool is_away = lent == LendKind::kWrite || (lent == LendKind::kRead && from == PagingState::kFresh);
    const bool is_lent = lent == LendKind::kRead;
    if (is_away || (run.count != 0 && is_lent != run.lent)) {
      core_.settle(page, now);
      break;
    }
    run.lent = is_lent;
    ++run.count;
  }
  return run;
}

Result<void> PagingIngress::fill(Run run, bool write) {
  const Result<void> filled = run.from == PagingState::kFresh ? fill_fresh(run, write) : fill_far(run, write);
  if (filled) return {};
  count(core_.counters().failures);
  give_back(run);  // What install() has left of it.
  return filled;
}

Result<void> PagingIngress::fill_fresh(Run& run, bool write) {
  count(core_.counters().fresh_pages, run.count);
  return install(run, staging_.zeros(), write);
}

void PagingIngress::count_fetched(const Run& run) {
  count(core_.counters().fetched_pages, run.count);
  if (run.count > 1) count(core_.counters().ahead_pages, run.count - 1);
}

Result<void> PagingIngress::fill_far(Run& run, bool write) {
  if (core_.forks().is_child() && !core_.store().is_shared_with_children()) {
    return fail(ErrorCode::kUnsupported, "far memory on a node in a child made by fork()");
  }
  const std::uint64_t slot = core_.slot_of(run.first, core_.word(run.first));
  if (const std::byte* here = core_.store().in_place(slot); here != nullptr) {
    count_fetched(run);
    return install(run, here, write);
  }
  const PagingStaging::Lease lease = staging_.take();
  YONDER_TRY_VOID(core_.store().read(
      {.local = lease.data(), .bytes = static_cast<std::uint32_t>(run.count * kPageBytes), .offset = slot}));
  count_fetched(run);
  return install(run, lease.data(), write);
}

// What the page is once it is in. Fresh pages are mostly made to be written.
PageWord PagingIngress::arrived(PageWord busy, const Run& run, bool write) const {
  PageWord word = busy.with_state(PagingState::kResident);
  // The first filling says nothing of what follows: it does not count as a habit.
  if (run.from == PagingState::kFresh)
    return word.with_dirty(true).with_predicted(true).with_lives(0).with_heat(0);
  word = word.missed(core_.tick());
  if (run.lent) return word.with_dirty(false).with_predicted(false);
  if (write) return word.with_dirty(true).with_predicted(false);
  return word.with_dirty(busy.habit() != 0).with_predicted(busy.habit() != 0);
}

Result<void> PagingIngress::install(Run& run, const std::byte* source, bool write) {
  const std::size_t touched = run.first;
  const auto word_for = [&](std::size_t page) {
    return arrived(core_.word(page), run, write && page == touched);
  };
  while (run.count != 0) {
    // As many at once as are protected alike.
    const bool dirty = word_for(run.first).dirty();
    std::size_t alike = 1;
    while (alike < run.count && word_for(run.first + alike).dirty() == dirty) ++alike;
    YONDER_TRY_VOID(core_.faults().copy({.destination = core_.bytes(run.first, alike),
                                         .source = source + (run.first - touched) * kPageBytes,
                                         .write_protect = !dirty}));
    for (; alike != 0; --alike, --run.count, ++run.first) {
      core_.note_resident(run.first);
      core_.settle(run.first, word_for(run.first));
    }
  }
  return {};
}

void PagingIngress::give_back(const Run& run) {
  for (std::size_t page = run.first; page < run.first + run.count; ++page) {
    core_.settle(page, core_.word(page).with_state(run.from));
  }
  core_.release(run.count);
}

bool PagingIngress::allow_write(std::size_t page, PageWord word) {
  const bool is_leaving = word.state() == PagingState::kLeaving;
  // Before the claim if it is leaving, after it if not: see paging_lends.h.
  if (is_leaving && core_.lends().kind_of(page) != LendKind::kNone) return false;
  if (!core_.claim(page, word)) return false;
  if (!is_leaving && core_.lends().kind_of(page) != LendKind::kNone) {
    core_.settle(page, word);
    return false;
  }
  const Result<void> allowed = core_.faults().write_protect(core_.bytes(page, 1), false);
  YONDER_CHECK(allowed, "a page of a registered range can be made writable");
  if (is_leaving) count(core_.counters().rescued_pages);
  core_.settle(page, word.with_state(PagingState::kResident).with_dirty(true).with_predicted(false));
  return true;
}

Result<std::size_t> PagingIngress::populate(std::size_t first, std::size_t limit) {
  const std::size_t end = std::min(first + limit, core_.pages());
  std::size_t page = first;
  while (page < end && core_.word(page).state() != PagingState::kFresh) ++page;
  if (page == end) return page - first;
  const std::size_t wanted = evictor_.reserve_up_to(std::min(end - page, staging_.pages()));
  if (wanted == 0) return fail(ErrorCode::kResourceExhausted, "populate: no room");
  const PageWord word = core_.word(page);
  const Run run = word.state() == PagingState::kFresh ? claim_run(page, word, wanted) : Run{};
  core_.release(wanted - run.count);
  if (run.count == 0) return page + 1 - first;  // Somebody was faster.
  YONDER_TRY_VOID(fill(run, false));
  return page + run.count - first;
}

}  // namespace yonder::heap::internal
