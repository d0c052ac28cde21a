#include "yonder/segment/internal/arrival.h"

#include <algorithm>
#include <array>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/os/mapping.h"

namespace yonder::segment::internal {

namespace {

constexpr std::size_t kPage = os::kPageBytes;

void append_page(std::vector<ByteRange>& ranges, std::size_t page) {
  if (!ranges.empty() && ranges.back().offset + ranges.back().length == page * kPage) {
    ranges.back().length += kPage;
  } else {
    ranges.push_back({page * kPage, kPage});
  }
}

// For somebody who may need this core to go on. First without sleeping, as a read on shm is
// over in a microsecond; on a network the core is better given away.
void wait_a_little(std::uint32_t round) {
  constexpr std::uint32_t kYields = 16;
  if (round < kYields) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

// A demand lane for one read. Waits for one to be free: reads have deadlines.
class Arrival::LaneLease {
 public:
  explicit LaneLease(std::vector<DemandLane>& lanes) {
    for (std::size_t i = 0;; i = (i + 1) % lanes.size()) {
      // acquire: what the last user did with the lane is complete.
      if (!lanes[i].busy.exchange(true, std::memory_order_acquire)) {
        lane_ = &lanes[i];
        return;
      }
      if (i + 1 == lanes.size()) std::this_thread::yield();
    }
  }
  ~LaneLease() { lane_->busy.store(false, std::memory_order_release); }
  LaneLease(const LaneLease&) = delete;
  LaneLease& operator=(const LaneLease&) = delete;
  Lane& operator*() const { return *lane_->lane; }

 private:
  DemandLane* lane_;
};

Result<std::unique_ptr<Arrival>> Arrival::open(fabric::Fabric& fabric, const std::vector<Source>& sources,
                                               const Memory& memory, const ArrivalOptions& options) {
  YONDER_CHECK(memory.seen.size() == memory.filled.size() && memory.seen.size() % kPage == 0,
               "both mappings of a segment are alike");
  YONDER_TRY(uffd, os::Userfaultfd::open(
                       {.features = os::kUffdSigbus | os::kUffdMissingShmem | os::kUffdMinorShmem}));
  YONDER_CHECK(!sources.empty(), "a segment comes from somewhere");
  auto arrival = std::unique_ptr<Arrival>(new Arrival(fabric, memory, options, std::move(uffd)));
  for (const Source& source : sources) YONDER_TRY_VOID(arrival->add_route(fabric, source));
  if (fabric.capabilities().copies_unregistered) {
    YONDER_TRY(landing, fabric.register_memory({.memory = memory.filled}));
    arrival->landing_ = std::move(landing);
  }
  YONDER_TRY_VOID(arrival->uffd_.register_range(memory.seen, os::kUffdMissing | os::kUffdMinor));
  return arrival;
}

Arrival::Arrival(fabric::Fabric& fabric, const Memory& memory, const ArrivalOptions& options,
                 os::Userfaultfd uffd)
    : memory_(memory),
      options_(options),
      clock_(fabric.clock()),
      pages_(memory.seen.size() / kPage),
      uffd_(std::move(uffd)),
      states_(std::make_unique<std::atomic<std::uint8_t>[]>(pages_)),
      missing_(pages_),
      window_(options.min_pages),
      heat_(pages_) {}

Arrival::~Arrival() = default;

Result<void> Arrival::add_route(fabric::Fabric& fabric, const Source& source) {
  auto route = std::make_unique<Route>(std::max(1u, options_.demand_lanes));
  route->region = source.region;
  for (DemandLane& lane : route->lanes) {
    YONDER_TRY(connected, connect_lane(fabric, source, {}));
    lane.lane = std::move(connected);
  }
  YONDER_TRY(connected, connect_lane(fabric, source, {.depth = 64, .spin = Duration::zero()}));
  route->prefetch_lane = std::move(connected);
  routes_.push_back(std::move(route));
  return {};
}

// The first read of a lane maps the source's memory and allocates what the endpoint needs:
// not in the first touch, which is a signal handler.
Result<std::unique_ptr<Lane>> Arrival::connect_lane(fabric::Fabric& fabric, const Source& source,
                                                    const LaneOptions& options) {
  YONDER_TRY(lane, Lane::connect(fabric, source.address, options));
  std::array<std::byte, 64> ignored;
  YONDER_TRY_VOID(lane->read(fabric::LocalPiece::of(ignored), source.region.at(0), source_deadline()));
  return lane;
}

bool Arrival::turn_away_from(std::size_t route) {
  if (route + 1 >= routes_.size()) return false;
  // Whoever finds it out first; the others come too late, and follow.
  route_.compare_exchange_strong(route, route + 1, std::memory_order_acq_rel);
  return true;
}

// ---------------------------------------------------------------- claims

Arrival::Run Arrival::claim(std::size_t first, std::size_t limit) {
  Run run{first, 0};
  while (run.count < limit && first + run.count < pages_) {
    std::uint8_t expected = kMissing;
    // acquire: pairs with give_back(); a failed read is over.
    if (!states_[first + run.count].compare_exchange_strong(expected, kClaimed, std::memory_order_acquire,
                                                            std::memory_order_relaxed)) {
      break;
    }
    ++run.count;
  }
  return run;
}

void Arrival::give_back(Run run) {
  // release: pairs with claim().
  for (std::size_t i = 0; i < run.count; ++i)
    states_[run.first + i].store(kMissing, std::memory_order_release);
}

Result<void> Arrival::admit(Run run) {
  return uffd_.admit(memory_.seen.subspan(run.first * kPage, run.count * kPage));
}

Result<void> Arrival::land(Run run) {
  // Nobody else maps a page that is claimed, so none is mapped already.
  if (Result<void> admitted = admit(run); !admitted) {
    give_back(run);
    return admitted;
  }
  land_unmapped(run);
  return {};
}

void Arrival::land_unmapped(Run run) {
  set_arrived(run);
  missing_.fetch_sub(run.count, std::memory_order_acq_rel);
}

// Maps a page that is here, and those behind it, up to one that is not or is mapped.
FaultAnswer Arrival::admit_arrived(std::size_t page) {
  Run run{page, 1};
  while (run.count < options_.max_pages && page + run.count < pages_ &&
         states_[page + run.count].load(std::memory_order_acquire) == kArrived) {
    ++run.count;
  }
  const Result<void> admitted = admit(run);
  // Mapped: by another thread, or some page after the first.
  const bool good = admitted || admitted.error() == ErrorCode::kAlreadyExists || is_complete();
  return good ? FaultAnswer::kServed : FaultAnswer::kNotOurs;
}

void Arrival::set_arrived(Run run) {
  // release: pairs with the acquire of those who wait for the page (A2).
  for (std::size_t i = 0; i < run.count; ++i)
    states_[run.first + i].store(kArrived, std::memory_order_release);
}

fabric::LocalPiece Arrival::piece_of(Run run) const {
  return fabric::LocalPiece::of(memory_.filled.subspan(run.first * kPage, run.count * kPage),
                                landing_ ? landing_.local_key() : fabric::kUnregistered);
}

bool Arrival::is_being_pulled() const {
  // A touch of a service that touches often follows the last one within this time.
  constexpr Duration kGoesOn = std::chrono::microseconds(500);
  // relaxed: hints.
  if (pulls_under_way_.load(std::memory_order_relaxed) > 0) return true;
  return clock_.now() - Instant::from_ns(last_pull_ns_.load(std::memory_order_relaxed)) < kGoesOn;
}

// A source that does not answer may have used up the time: the next one has its own.
Result<void> Arrival::fetch(Run run, Deadline deadline) {
  for (;;) {
    const std::size_t used = route();
    Result<void> read;
    {
      Route& from = *routes_[used];
      pulls_under_way_.fetch_add(1, std::memory_order_relaxed);
      const LaneLease lane(from.lanes);
      read = (*lane).read(piece_of(run), from.region.at(run.first * kPage),
                          Deadline::earlier(deadline, route_deadline(used)));
    }
    last_pull_ns_.store(clock_.now().ns(), std::memory_order_relaxed);
    pulls_under_way_.fetch_sub(1, std::memory_order_relaxed);
    if (read) return land(run);
    if (!turn_away_from(used)) {
      give_back(run);
      return read;
    }
    deadline = source_deadline();
  }
}

// The page has no data at the source: a page of zeros is allocated by looking at it.
Result<void> Arrival::bring_zero(std::size_t page) {
  std::uint8_t expected = kZero;
  if (!states_[page].compare_exchange_strong(expected, kClaimed, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
    return {};  // Somebody else does it.
  }
  [[maybe_unused]] const auto look =
      *const_cast<volatile const std::byte*>(memory_.filled.data() + page * kPage);
  const Result<void> admitted = admit({page, 1});
  if (admitted) {
    set_arrived({page, 1});
  } else {
    states_[page].store(kZero, std::memory_order_release);
  }
  return admitted;
}

void Arrival::mark_zero(ByteRange range) {
  const std::size_t first = (range.offset + kPage - 1) / kPage;
  const std::size_t last = std::min<std::size_t>((range.offset + range.length) / kPage, pages_);
  for (std::size_t page = first; page < last; ++page) {
    std::uint8_t expected = kMissing;
    if (states_[page].compare_exchange_strong(expected, kZero, std::memory_order_relaxed))
      missing_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

// ---------------------------------------------------------------- pulls

// Returns when `page` has arrived; pulls up to `count` pages from there on.
Result<void> Arrival::bring(std::size_t page, std::size_t count, Deadline deadline) {
  for (std::uint32_t round = 0;; ++round) {
    switch (states_[page].load(std::memory_order_acquire)) {
      case kArrived:
        return {};
      case kZero:
        YONDER_TRY_VOID(bring_zero(page));
        break;
      case kMissing:
        if (const Run run = claim(page, count); run.count > 0) YONDER_TRY_VOID(fetch(run, deadline));
        break;
      default:  // Claimed: whoever did has a deadline, too.
        if (deadline.passed(clock_.now())) return fail(ErrorCode::kDeadlineExceeded, "wait for a page");
        wait_a_little(round);
    }
  }
}

std::size_t Arrival::pages_for(std::size_t page) {
  // relaxed: hints.
  std::uint32_t window = window_.load(std::memory_order_relaxed);
  const bool sequential = page == last_end_.load(std::memory_order_relaxed);
  window = sequential ? std::min(window * 2, options_.max_pages) : std::max(window / 2, options_.min_pages);
  window_.store(window, std::memory_order_relaxed);
  if (heat_.note(page)) window = std::max(window, options_.dense_pages);
  last_end_.store(page + window, std::memory_order_relaxed);
  return window;
}

FaultAnswer Arrival::serve_fault(std::uintptr_t address) noexcept {
  const std::size_t offset = address - reinterpret_cast<std::uintptr_t>(memory_.seen.data());
  if (offset >= memory_.seen.size()) return FaultAnswer::kNotOurs;
  faults_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t page = offset / kPage;
  // Brought by the prefetcher, or taken out of the page table by the kernel.
  if (states_[page].load(std::memory_order_acquire) == kArrived) return admit_arrived(page);
  if (!options_.pull_on_touch) return FaultAnswer::kNotPulled;
  if (is_source_lost()) return FaultAnswer::kLost;
  const Result<void> brought = bring(page, pages_for(page), source_deadline());
  if (brought || is_complete()) return FaultAnswer::kServed;
  lost_.store(true, std::memory_order_release);
  return FaultAnswer::kLost;
}

Result<void> Arrival::pull(ByteRange range, Deadline deadline) {
  if (range.offset > memory_.seen.size() || range.length > memory_.seen.size() - range.offset)
    return fail(ErrorCode::kOutOfBounds, "pull beyond the segment");
  const std::size_t end = (range.offset + range.length + kPage - 1) / kPage;
  for (std::size_t page = range.offset / kPage; page < end; ++page) {
    // What has no data needs no page until it is touched.
    const std::uint8_t state = states_[page].load(std::memory_order_acquire);
    if (state == kArrived || state == kZero) continue;
    const std::size_t count = std::min<std::size_t>(end - page, 4 * options_.max_pages);
    const Result<void> brought = bring(page, count, Deadline::earlier(deadline, source_deadline()));
    if (brought) continue;
    if (is_complete()) return {};  // Meanwhile, and faults are the kernel's again.
    if (deadline.passed(clock_.now())) return fail(ErrorCode::kDeadlineExceeded, "pull a segment");
    lost_.store(true, std::memory_order_release);
    return fail(ErrorCode::kSegmentLost, "pull a segment: its source does not answer",
                static_cast<std::int64_t>(page * kPage));
  }
  return {};
}

std::vector<ByteRange> Arrival::missing() const {
  std::vector<ByteRange> ranges;
  for (std::size_t page = 0; page < pages_; ++page) {
    const std::uint8_t state = states_[page].load(std::memory_order_acquire);
    if (state == kMissing || state == kClaimed) append_page(ranges, page);
  }
  return ranges;
}

std::vector<ByteRange> Arrival::take_unreported() {
  reported_.resize(pages_);
  std::vector<ByteRange> ranges;
  for (std::size_t page = 0; page < pages_; ++page) {
    if (reported_[page] || states_[page].load(std::memory_order_acquire) != kArrived) continue;
    reported_[page] = true;
    append_page(ranges, page);
  }
  return ranges;
}

Result<void> Arrival::finish() {
  YONDER_CHECK(is_complete(), "a segment is finished when all of it is there");
  return uffd_.unregister_range(memory_.seen);
}

}  // namespace yonder::segment::internal
