#include "yonder/heap/internal/paging_sweeper.h"

#include <algorithm>

#include "yonder/heap/internal/unchecked_reads.h"

namespace yonder::heap::internal {

namespace {

thread_local constinit bool thread_is_sweeping = false;

class Sweeping {
 public:
  Sweeping() { thread_is_sweeping = true; }
  ~Sweeping() { thread_is_sweeping = false; }
  Sweeping(const Sweeping&) = delete;
  Sweeping& operator=(const Sweeping&) = delete;
};

}  // namespace

bool PagingSweeper::is_sweeping() { return thread_is_sweeping; }

Result<std::size_t> PagingSweeper::sweep(std::size_t wanted) {
  const Sweeping sweeping;
  choose(std::min(wanted, kBatch));
  if (victim_count_ == 0) return std::size_t{0};
  Result<void> written = protect();
  if (written) written = write_out();
  if (!written) {
    count(core_.counters().failures);
    give_back();
    return std::unexpected(written.error());
  }
  return drop();
}

void PagingSweeper::choose(std::size_t wanted) {
  victim_count_ = 0;
  met_held_pages_ = false;
  // After so many rounds every page has lost its lives: what is left cannot leave now.
  const std::size_t enough = core_.pages() * (PageWord::kMaxLives + 1);
  for (std::size_t seen = 0; seen < enough && victim_count_ < wanted;) {
    const std::size_t region_end =
        std::min((hand_ / PagingCore::kRegionPages + 1) * PagingCore::kRegionPages, core_.pages());
    const std::size_t from = hand_;
    if (core_.is_region_empty(hand_)) {
      hand_ = region_end;
    } else {
      while (hand_ < region_end && victim_count_ < wanted) visit(hand_++);
    }
    seen += hand_ - from;
    if (hand_ == core_.pages()) hand_ = 0;
  }
}

void PagingSweeper::visit(std::size_t page) {
  const PageWord word = core_.word(page);
  if (word.state() != PagingState::kResident) return;
  if (word.lives() != 0) {
    // If the page changes meanwhile it keeps its life.
    (void)core_.change(page, word, word.with_lives(word.lives() - 1));
    return;
  }
  const bool must_move = word.dirty() && word.held();
  // Its content cannot be written anywhere while the children live (paging_forks.h).
  if (must_move && (word.other_held() || !core_.has_two_sides())) {
    met_held_pages_ = true;
    return;
  }
  if (!core_.change(page, word, word.with_state(PagingState::kChosen))) return;
  if (core_.pins().covers(page)) return core_.settle(page, word);
  const PageWord leaving = word.with_state(PagingState::kLeaving);
  victims_[victim_count_++] = {
      .page = page, .word = leaving, .target = must_move ? leaving.on_other_side() : leaving};
}

template <typename Wanted, typename Act>
Result<void> PagingSweeper::for_each_run(Wanted wanted, Act act) {
  for (std::size_t i = 0; i < victim_count_;) {
    if (!wanted(victims_[i])) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < victim_count_ && victims_[end].page == victims_[end - 1].page + 1 && wanted(victims_[end]) &&
           victims_[end].target.side() == victims_[i].target.side()) {
      ++end;
    }
    YONDER_TRY_VOID(act(victims_[i], end - i));
    i = end;
  }
  return {};
}

// Clean pages are protected already (I1).
Result<void> PagingSweeper::protect() {
  Result<void> done;
  for (std::size_t i = 0; i < victim_count_ && done;) {
    if (!victims_[i].word.dirty()) {
      ++i;
      continue;
    }
    const Result<std::size_t> next = protect_stretch(i);
    done = outcome_of(next);
    i = next.value_or(victim_count_);
  }
  // Even if that failed: give_back() expects them so.
  for (std::size_t i = 0; i < victim_count_; ++i) core_.settle(victims_[i].page, victims_[i].word);
  return done;
}

Result<std::size_t> PagingSweeper::protect_stretch(std::size_t first) {
  std::size_t last = first;  // The last one that is dirty: no reason to go on behind it.
  std::size_t gaps = 0;      // Those before it.
  for (std::size_t i = first + 1; i < victim_count_; ++i) {
    if (!claim_gap(victims_[i - 1].page, victims_[i].page)) break;
    if (!victims_[i].word.dirty()) continue;
    last = i;
    gaps = gap_count_;
  }
  give_back_gaps(gaps);
  const std::size_t pages = victims_[last].page + 1 - victims_[first].page;
  const Result<void> done = core_.faults().write_protect(core_.bytes(victims_[first].page, pages), true);
  give_back_gaps(0);
  if (!done) return std::unexpected(done.error());
  return last + 1;
}

// The hand may have begun a new round between the two: then the second is before the first.
bool PagingSweeper::claim_gap(std::size_t after, std::size_t before) {
  if (before <= after || before - after - 1 > std::min(kMaxGap, kMaxGaps - gap_count_)) return false;
  for (std::size_t page = after + 1; page < before; ++page) {
    const PageWord word = core_.word(page);
    const bool is_absent = word.state() == PagingState::kFresh || word.state() == PagingState::kFar;
    if (!is_absent || !core_.claim(page, word)) return false;
    gaps_[gap_count_++] = {.page = page, .before = word};
  }
  return true;
}

void PagingSweeper::give_back_gaps(std::size_t keep) {
  while (gap_count_ > keep) {
    const Gap& gap = gaps_[--gap_count_];
    core_.settle(gap.page, gap.before);
  }
}

Result<void> PagingSweeper::write_out() {
  std::size_t transfers = 0;
  std::size_t written = 0;
  (void)for_each_run([](const Victim& victim) { return victim.word.dirty(); },
                     [&](const Victim& first, std::size_t pages) -> Result<void> {
                       transfers_[transfers++] = {.local = core_.address(first.page),
                                                  .bytes = static_cast<std::uint32_t>(pages * kPageBytes),
                                                  .offset = core_.slot_of(first.page, first.target)};
                       written += pages;
                       return {};
                     });
  // A page that is rescued is read while it is written; the copy is then of no use to
  // anybody (see the argument in paging_core.h).
  const UncheckedReads unchecked;
  YONDER_TRY_VOID(core_.store().write_many({transfers_.data(), transfers}));
  count(core_.counters().written_pages, written);
  return {};
}

std::size_t PagingSweeper::drop() {
  // Those that were rescued are dropped from the list, which stays in order.
  const auto gone =
      std::remove_if(victims_.begin(), victims_.begin() + static_cast<std::ptrdiff_t>(victim_count_),
                     [&](const Victim& victim) { return !core_.claim(victim.page, victim.word); });
  victim_count_ = static_cast<std::size_t>(gone - victims_.begin());
  std::size_t runs = 0;
  (void)for_each_run([](const Victim&) { return true; },
                     [&](const Victim& first, std::size_t pages) -> Result<void> {
                       ranges_[runs++] = {.iov_base = core_.address(first.page),
                                          .iov_len = pages * kPageBytes};
                       return {};
                     });
  dropper_.drop({ranges_.data(), runs});
  for (std::size_t i = 0; i < victim_count_; ++i) {
    core_.note_gone(victims_[i].page);
    core_.settle(victims_[i].page, victims_[i].target.left(core_.tick()));
  }
  core_.release(victim_count_);
  count(core_.counters().left_pages, victim_count_);
  count_time(victim_count_);
  return victim_count_;
}

void PagingSweeper::count_time(std::size_t left) {
  left_in_tick_ += left;
  if (left_in_tick_ * PageWord::kTicksPerRound < core_.resident()) return;
  left_in_tick_ = 0;
  core_.next_tick();
}

void PagingSweeper::give_back() {
  for (std::size_t i = 0; i < victim_count_; ++i) {
    const auto [page, word, target] = victims_[i];
    if (!core_.claim(page, word)) continue;
    // Only the range's end makes this fail, and the space outlives its sweeps.
    if (word.dirty()) (void)core_.faults().write_protect(core_.bytes(page, 1), false);
    core_.settle(page, word.with_state(PagingState::kResident));
  }
}

}  // namespace yonder::heap::internal
