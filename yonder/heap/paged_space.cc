#include "yonder/heap/paged_space.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/heap/internal/paging_core.h"
#include "yonder/heap/internal/paging_drop.h"
#include "yonder/heap/internal/paging_evictor.h"
#include "yonder/heap/internal/paging_ingress.h"
#include "yonder/heap/internal/paging_lender.h"
#include "yonder/heap/internal/paging_router.h"
#include "yonder/heap/internal/paging_staging.h"
#include "yonder/heap/internal/paging_stream.h"
#include "yonder/os/mapping.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/userfaultfd.h"
#include "yonder/sync/mutex.h"

namespace yonder::heap {
namespace {

using internal::PageWord;
using internal::PagingState;

// Pages that a discard holds claimed at a time.
constexpr std::size_t kDiscardAtOnce = 1024;

struct Pages {
  std::size_t first = 0;
  std::size_t last = 0;  // One past.
};

// Only async-signal-safe calls: the interrupted thread may be anywhere.
void tell_failure(std::uintptr_t address, const Error& error) {
  std::array<char, 256> text;
  const auto name = error_name(error.code());
  const int length = std::snprintf(
      text.data(), text.size(), "yonder: the page of 0x%lx cannot be brought from far memory: %s (%.*s)\n",
      static_cast<unsigned long>(address), error.message(), static_cast<int>(name.size()), name.data());
  if (length <= 0) return;
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, text.data(), std::min(text.size(), static_cast<std::size_t>(length)));
}

// Not madvise(): in the preload library that is the program's.
bool advise(const os::Mapping& mapping, int advice) {
  return ::syscall(SYS_madvise, mapping.data(), mapping.size(), advice) == 0;
}

Result<os::Mapping> reserve_space(std::size_t bytes, void* at) {
  YONDER_TRY(mapping, os::Mapping::reserve({.bytes = bytes, .alignment = os::kHugePageBytes, .at = at}));
  YONDER_TRY_VOID(mapping.protect(0, mapping.size(), os::Protection::kReadWrite));
  // A huge page could be neither dropped nor protected in part without being split.
  (void)advise(mapping, MADV_NOHUGEPAGE);
  // A child that nobody prepared for would find zeros where far pages are.
  if (!advise(mapping, MADV_DONTFORK)) return fail_errno("madvise(MADV_DONTFORK)");
  return mapping;
}

}  // namespace

// Everything a space consists of; what faults need is reached through it.
class PagedSpace::Parts final : public internal::PagingServer {
 public:
  Parts(const PagedSpaceOptions& options, std::unique_ptr<SlotStore> far, os::Userfaultfd service,
        os::Mapping memory)
      : patience(options.patience),
        max_ahead_pages(std::max<std::uint32_t>(options.max_ahead_pages, 1)),
        store(std::move(far)),
        faults(std::move(service)),
        mapping(std::move(memory)) {}

  Result<void> open(const PagedSpaceOptions& options) {
    YONDER_TRY_VOID(faults.register_range(mapping.bytes(), os::kUffdMissing | os::kUffdProtected));
    YONDER_TRY(made_core, internal::PagingCore::create(mapping.bytes(), faults, *store));
    core = std::move(made_core);
    YONDER_TRY(made_staging, internal::PagingStaging::create(max_ahead_pages));
    staging = std::move(made_staging);
    evictor = std::make_unique<internal::PagingEvictor>(
        *core, dropper,
        internal::PagingEvictor::Options{.budget_pages = options.budget.count() / kPageBytes,
                                         .min_pages = kMinBudgetPages,
                                         .other_memory = options.other_memory});
    lender = std::make_unique<internal::PagingLender>(*core, dropper);
    ingress = std::make_unique<internal::PagingIngress>(*core, *evictor, *staging);
    YONDER_TRY_VOID(internal::PagingRouter::add(mapping.bytes(), *this));
    routed = true;
    return {};
  }

  ~Parts() override {
    if (routed) internal::PagingRouter::remove(*this);
  }

  Deadline soon() const { return Deadline::at(os::SteadyClock::read() + patience); }

  bool serve_fault(std::uintptr_t address, bool write) noexcept override {
    const internal::InsideSpace inside(core->forks());
    const std::size_t page = (address - reinterpret_cast<std::uintptr_t>(mapping.data())) / kPageBytes;
    const PagingState state = core->word(page).state();
    const bool missing = state == PagingState::kFresh || state == PagingState::kFar;
    internal::count(missing ? core->counters().faults : core->counters().write_faults);
    const std::size_t ahead = missing ? streams().pages_for(address / kPageBytes, max_ahead_pages) : 1;
    const Result<std::size_t> brought =
        ingress->bring({.page = page, .ahead = ahead, .write = write}, soon());
    if (!brought) {
      while (abandoned.load(std::memory_order_acquire)) ::pause();
      tell_failure(address, brought.error());
      return false;
    }
    if (*brought != 0 && *brought < ahead) streams().brought(address / kPageBytes, ahead, *brought);
    return true;
  }

  // Whole pages that the bytes touch.
  Pages pages_of(std::span<const std::byte> range) const {
    const auto offset = static_cast<std::size_t>(range.data() - mapping.data());
    return {.first = offset / kPageBytes, .last = (offset + range.size() + kPageBytes - 1) / kPageBytes};
  }
  bool contains(std::span<const std::byte> range) const {
    return mapping.contains(range.data()) &&
           range.size() <= mapping.size() - static_cast<std::size_t>(range.data() - mapping.data());
  }

  // Claims the page if it is resident; a far one is made fresh. Waits while it moves.
  bool claim_to_discard(std::size_t page);
  // Drops pages that were claimed so.
  void drop_claimed(Pages run);

  static internal::FaultStreams& streams() {
    thread_local constinit internal::FaultStreams of_thread;
    return of_thread;
  }

  const Duration patience;
  const std::uint32_t max_ahead_pages;
  const std::unique_ptr<SlotStore> store;
  os::Userfaultfd faults;  // Another one in a child.
  const os::Mapping mapping;
  internal::PageDropper dropper;
  std::unique_ptr<internal::PagingCore> core;
  std::unique_ptr<internal::PagingStaging> staging;
  std::unique_ptr<internal::PagingEvictor> evictor;
  std::unique_ptr<internal::PagingIngress> ingress;
  std::unique_ptr<internal::PagingLender> lender;
  sync::Mutex lend_mutex;     // Who publishes a lend sees all others'.
  sync::Condition lend_ends;  // Of lend_mutex.
  bool routed = false;
  std::atomic<bool> abandoned{false};
};

Result<std::unique_ptr<PagedSpace>> PagedSpace::create(const PagedSpaceOptions& options,
                                                       std::unique_ptr<SlotStore> store) {
  const std::size_t bytes = options.bytes.count();
  if (bytes == 0 || bytes % kPageBytes != 0 || store == nullptr || store->bytes() < bytes) {
    return fail(ErrorCode::kInvalidArgument, "paged space: whole pages, and a store that has as many");
  }
  if (options.budget.count() < kMinBudgetPages * kPageBytes) {
    return fail(ErrorCode::kInvalidArgument, "paged space: the budget is less than it needs",
                kMinBudgetPages);
  }
  YONDER_TRY(faults, os::Userfaultfd::open({.features = os::kUffdSigbus | os::kUffdWriteProtect}));
  YONDER_TRY(mapping, reserve_space(bytes, options.at));
  auto parts = std::make_unique<Parts>(options, std::move(store), std::move(faults), std::move(mapping));
  YONDER_TRY_VOID(parts->open(options));
  return std::unique_ptr<PagedSpace>(new PagedSpace(std::move(parts)));
}

PagedSpace::PagedSpace(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)), memory_(parts_->mapping.bytes()) {}

PagedSpace::~PagedSpace() = default;

Result<void> PagedSpace::set_budget(Bytes budget) {
  if (budget.count() < kMinBudgetPages * kPageBytes) {
    return fail(ErrorCode::kInvalidArgument, "paged space: the budget is less than it needs",
                kMinBudgetPages);
  }
  parts_->evictor->set_budget_pages(budget.count() / kPageBytes);
  return {};
}

Bytes PagedSpace::budget() const { return Bytes(parts_->evictor->budget_pages() * kPageBytes); }

// ---------------------------------------------------------------- whole ranges

bool PagedSpace::Parts::claim_to_discard(std::size_t page) {
  for (;;) {
    const PageWord word = core->word(page);
    switch (word.state()) {
      case PagingState::kFresh:
        return false;
      case PagingState::kFar:
        if (core->change(page, word, word.forgotten())) return false;
        break;
      case PagingState::kResident:
        if (core->claim(page, word)) return true;
        break;
      case PagingState::kChosen:
      case PagingState::kLeaving:  // The sweeper may be reading it: it must not go under its eyes.
      case PagingState::kBusy:
        std::this_thread::yield();  // Bounded by the store's timeout.
        break;
    }
  }
}

void PagedSpace::Parts::drop_claimed(Pages run) {
  const std::size_t pages = run.last - run.first;
  if (pages == 0) return;
  const iovec range{.iov_base = core->address(run.first), .iov_len = pages * kPageBytes};
  dropper.drop({&range, 1});
  for (std::size_t page = run.first; page < run.last; ++page) {
    core->note_gone(page);
    core->settle(page, core->word(page).forgotten());
  }
  core->release(pages);
}

void PagedSpace::discard(std::span<std::byte> range) {
  YONDER_CHECK(parts_->contains(range), "discard what is of the space");
  const internal::InsideSpace inside(parts_->core->forks());
  // Only whole pages: the rest of the first and of the last one is somebody else's.
  const auto offset = static_cast<std::size_t>(range.data() - memory_.data());
  const std::size_t first = (offset + kPageBytes - 1) / kPageBytes;
  const std::size_t last = (offset + range.size()) / kPageBytes;
  Pages run{.first = first, .last = first};
  for (std::size_t page = first; page < last; ++page) {
    const bool claimed = parts_->claim_to_discard(page);
    if (claimed && run.last == page && run.last - run.first < kDiscardAtOnce) {
      run.last = page + 1;
      continue;
    }
    parts_->drop_claimed(run);
    run = claimed ? Pages{.first = page, .last = page + 1} : Pages{.first = page + 1, .last = page + 1};
  }
  parts_->drop_claimed(run);
}

void PagedSpace::populate(std::span<std::byte> range) {
  YONDER_CHECK(parts_->contains(range), "populate what is of the space");
  const internal::InsideSpace inside(parts_->core->forks());
  const Pages pages = parts_->pages_of(range);
  for (std::size_t page = pages.first; page < pages.last;) {
    const Result<std::size_t> seen = parts_->ingress->populate(page, pages.last - page);
    if (!seen) return;  // No room, or no memory: the faults will tell.
    page += *seen;
  }
}

// ---------------------------------------------------------------- pins

Result<PagedSpace::Pin> PagedSpace::pin(std::span<const std::byte> range, Access access) {
  if (!parts_->contains(range)) return fail(ErrorCode::kOutOfBounds, "pin what is of the space");
  const Pages pages = parts_->pages_of(range);
  if (pages.last - pages.first > parts_->evictor->limit() / 2) {
    return fail(ErrorCode::kResourceExhausted, "pin: more than half of what may be resident",
                static_cast<std::int64_t>(range.size()));
  }
  const internal::InsideSpace inside(parts_->core->forks());
  const auto place = parts_->core->pins().publish(pages.first, pages.last);
  if (!place) return fail(ErrorCode::kResourceExhausted, "pins of one space");
  Pin pin(*this, *place);
  const Deadline deadline = parts_->soon();
  for (std::size_t page = pages.first; page < pages.last;) {
    YONDER_TRY(
        brought,
        parts_->ingress->bring(
            {.page = page, .ahead = pages.last - page, .write = access == Access::kWrite, .stay = true},
            deadline));
    // Those that came along are looked at again if they must be writable.
    page += access == Access::kRead && brought > 1 ? brought : 1;
  }
  return pin;
}

bool PagedSpace::is_sweeping() { return internal::PagingSweeper::is_sweeping(); }

std::size_t PagedSpace::max_pin_bytes() const { return parts_->evictor->limit() / 4 * kPageBytes; }

PagedSpace::Pin::~Pin() {
  if (space_ != nullptr) space_->parts_->core->pins().withdraw(place_);
}

// ---------------------------------------------------------------- lends

namespace {

using internal::LendKind;

struct LendPages {
  std::size_t first = 0;
  std::size_t last = 0;  // One past.
  LendKind kind = LendKind::kRead;
};

// What overlaps becomes one, for writing if a part of it is.
std::vector<LendPages> merged(std::vector<LendPages> ranges) {
  std::ranges::sort(ranges, {}, &LendPages::first);
  std::vector<LendPages> out;
  for (const LendPages& range : ranges) {
    if (range.first == range.last) continue;
    const bool overlaps = !out.empty() && range.first < out.back().last;
    const bool follows = !out.empty() && range.first == out.back().last && range.kind == out.back().kind;
    if (!overlaps && !follows) {
      out.push_back(range);
      continue;
    }
    out.back().last = std::max(out.back().last, range.last);
    out.back().kind = std::max(out.back().kind, range.kind);
  }
  return out;
}

bool may_lend(const internal::PagingLends& lends, std::span<const LendPages> ranges) {
  return std::ranges::all_of(ranges, [&](const LendPages& range) {
    const LendKind taken = lends.kind_of(range.first, range.last);
    return taken == LendKind::kNone || (taken == LendKind::kRead && range.kind == LendKind::kRead);
  });
}

}  // namespace

Result<PagedSpace::Lend> PagedSpace::lend(std::span<const LendRange> ranges, Deadline deadline) {
  std::vector<LendPages> wanted;
  for (const LendRange& range : ranges) {
    if (range.bytes.empty()) continue;
    if (!parts_->contains(range.bytes)) return fail(ErrorCode::kOutOfBounds, "lend what is of the space");
    const Pages pages = parts_->pages_of(range.bytes);
    wanted.push_back({.first = pages.first,
                      .last = pages.last,
                      .kind = range.access == Access::kWrite ? LendKind::kWrite : LendKind::kRead});
  }
  wanted = merged(std::move(wanted));
  const internal::InsideSpace inside(parts_->core->forks());
  internal::PagingLends& lends = parts_->core->lends();
  Lend lend(*this);
  lend.places_.reserve(wanted.size());
  {
    sync::LockGuard lock(parts_->lend_mutex);
    while (!may_lend(lends, wanted)) {
      if (deadline.passed(os::SteadyClock::read()))
        return fail(ErrorCode::kDeadlineExceeded, "lend what another call has");
      (void)parts_->lend_ends.wait(lock, deadline);
    }
    for (const LendPages& range : wanted) {
      const auto place = lends.publish(range.first, range.last, range.kind);
      if (!place) break;
      lend.places_.push_back(*place);
    }
  }
  if (lend.places_.size() != wanted.size())
    return fail(ErrorCode::kResourceExhausted, "ranges lent at a time", internal::PagingLends::kLends);
  for (const LendPages& range : wanted)
    YONDER_TRY_VOID(parts_->lender->prepare(range.first, range.last, range.kind, deadline));
  return lend;
}

PagedSpace::Lend::Lend(Lend&& other) noexcept
    : space_(std::exchange(other.space_, nullptr)), places_(std::move(other.places_)) {}

PagedSpace::Lend::~Lend() {
  if (space_ == nullptr || places_.empty()) return;
  {
    sync::LockGuard lock(space_->parts_->lend_mutex);
    for (const std::size_t place : places_) space_->parts_->core->lends().withdraw(place);
  }
  space_->parts_->lend_ends.notify_all();
}

// ---------------------------------------------------------------- fork

void PagedSpace::prepare_fork() {
  // What earlier children held is free if they have ended.
  parts_->core->forks().release_if_alone([&] { parts_->core->release_holds(); });
  // Closed first: who is inside may wait for a sweep.
  parts_->core->forks().begin();
  parts_->evictor->lock_sweeps();
  parts_->core->hold_far_pages();
  YONDER_CHECK(advise(parts_->mapping, MADV_DOFORK), "what was kept from children can be given to them");
}

void PagedSpace::after_fork_in_parent() {
  YONDER_CHECK(advise(parts_->mapping, MADV_DONTFORK), "a range of ours can be kept from children");
  parts_->evictor->unlock_sweeps();
  parts_->core->forks().in_parent();
}

void PagedSpace::after_fork_in_child() {
  // The kernel has not taken the registration over: faults would give zeros.
  Result<os::Userfaultfd> faults =
      os::Userfaultfd::open({.features = os::kUffdSigbus | os::kUffdWriteProtect});
  YONDER_CHECK(faults.has_value(), "a child may have a userfaultfd as its parent had");
  parts_->faults = std::move(*faults);
  const Result<void> registered =
      parts_->faults.register_range(memory_, os::kUffdMissing | os::kUffdProtected);
  YONDER_CHECK(registered.has_value(), "a child can register what its parent had registered");
  YONDER_CHECK(advise(parts_->mapping, MADV_DONTFORK), "a range of ours can be kept from children");
  parts_->evictor->unlock_sweeps();
  parts_->core->forks().in_child();
}

void PagedSpace::abandon() {
  parts_->abandoned.store(true, std::memory_order_release);
  parts_->store->give_back();
}

// ---------------------------------------------------------------- statistics

PagedSpaceStats PagedSpace::stats() const {
  // relaxed: statistics.
  const auto value = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  const internal::PagingCounters& counters = parts_->core->counters();
  return {.resident_bytes = parts_->core->resident() * kPageBytes,
          .budget_bytes = budget().count(),
          .faults = value(counters.faults),
          .write_faults = value(counters.write_faults),
          .fetched_pages = value(counters.fetched_pages),
          .ahead_pages = value(counters.ahead_pages),
          .fresh_pages = value(counters.fresh_pages),
          .left_pages = value(counters.left_pages),
          .written_pages = value(counters.written_pages),
          .rescued_pages = value(counters.rescued_pages),
          .stalls = value(counters.stalls),
          .failures = value(counters.failures)};
}

}  // namespace yonder::heap
