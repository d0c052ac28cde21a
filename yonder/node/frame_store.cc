#include "yonder/node/frame_store.h"

#include <algorithm>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/node/size_class.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::node {
namespace {

constexpr std::uint64_t kMaxUnits = std::uint64_t{1} << kFrameIdBits;
// Address space beyond the limit: free extents of different sizes leave gaps.
constexpr std::uint64_t kArenaFactor = 2;

std::uint64_t arena_units(const FrameStoreOptions& options) {
  const std::uint64_t superblock = options.superblock.count();
  const std::uint64_t wanted = (options.limit.count() * kArenaFactor + superblock - 1) / superblock + 1;
  return std::min(wanted * (superblock / kUnitBytes), kMaxUnits);
}

}  // namespace

Result<std::unique_ptr<FrameStore>> FrameStore::create(const Clock& clock, const FrameStoreOptions& options) {
  const std::uint64_t superblock = options.superblock.count();
  const std::uint64_t granule = options.huge_pages == os::HugePages::kOff ? kUnitBytes : os::kHugePageBytes;
  if (superblock < std::uint64_t{kMaxObjectBytes} + kUnitBytes || superblock % granule != 0) {
    return fail(ErrorCode::kInvalidArgument, "superblock size", static_cast<std::int64_t>(superblock));
  }
  if (options.limit.count() == 0 || options.limit.count() > kMaxUnits * kUnitBytes) {
    return fail(ErrorCode::kInvalidArgument, "node memory limit",
                static_cast<std::int64_t>(options.limit.count()));
  }
  YONDER_TRY(arena, os::Mapping::reserve(
                        {.bytes = arena_units(options) * kUnitBytes, .alignment = os::kHugePageBytes}));
  return std::unique_ptr<FrameStore>(new FrameStore(clock, options, std::move(arena)));
}

FrameStore::FrameStore(const Clock& clock, const FrameStoreOptions& options, os::Mapping arena)
    : clock_(clock),
      limit_(options.limit.count()),
      superblock_bytes_(options.superblock.count()),
      huge_pages_(options.huge_pages),
      quarantine_time_(options.quarantine),
      give_back_(options.give_back),
      on_superblock_(options.on_superblock),
      arena_(std::move(arena)) {}

Result<FrameId> FrameStore::allocate(std::uint64_t bytes) {
  YONDER_CHECK(bytes != 0 && bytes % kUnit == 0 && bytes <= superblock_bytes_,
               "frames are whole units of a superblock");
  sync::LockGuard lock(mutex_);
  if (bytes > limit_ - active_bytes_) {
    return fail(ErrorCode::kOutOfMemory, "take a frame: the node's memory limit",
                static_cast<std::int64_t>(limit_));
  }
  end_quarantine();
  const auto units = static_cast<std::uint32_t>(bytes / kUnit);
  std::uint32_t first = 0;
  if (!take_best_fit(units, first) && !(await_rest() && take_best_fit(units, first))) {
    YONDER_TRY_VOID(add_superblock());
    YONDER_CHECK(take_best_fit(units, first), "a new superblock holds any frame");
  }
  active_bytes_ += bytes;
  return FrameId(first);
}

void FrameStore::release(FrameId frame, std::uint64_t bytes) {
  const std::pair<FrameId, std::uint64_t> one{frame, bytes};
  release({&one, 1});
}

void FrameStore::release(std::span<const std::pair<FrameId, std::uint64_t>> frames) {
  std::vector<Extent> extents;
  for (const auto& [frame, bytes] : frames) {
    extents.push_back({frame.value(), static_cast<std::uint32_t>(bytes / kUnit)});
  }
  std::ranges::sort(extents, {}, &Extent::first);
  const std::vector<Extent> runs = merge_neighbours(extents);
  // Without the lock: nobody else knows these frames, and a system call per run
  // would keep all who want one waiting.
  for (const Extent& run : runs) punch(run, give_back_);
  sync::LockGuard lock(mutex_);
  const Instant reusable = clock_.now() + quarantine_time_;
  for (const Extent& run : runs) {
    active_bytes_ -= run.units * kUnit;
    quarantine_bytes_ += run.units * kUnit;
    quarantine_.push_back({run, reusable});
  }
}

// Neighbours leave together: one system call costs as much as 5 pages.
std::vector<FrameStore::Extent> FrameStore::merge_neighbours(std::span<const Extent> sorted) const {
  const auto superblock_units = static_cast<std::uint32_t>(superblock_bytes_ / kUnit);
  std::vector<Extent> runs;
  for (const Extent& extent : sorted) {
    if (!runs.empty() && runs.back().first + runs.back().units == extent.first &&
        extent.first % superblock_units != 0) {
      runs.back().units += extent.units;
    } else {
      runs.push_back(extent);
    }
  }
  return runs;
}

void FrameStore::punch(Extent extent, bool give_back) {
  Superblock* superblock = nullptr;
  {
    sync::LockGuard lock(mutex_);
    superblock = &superblocks_[superblock_of(extent.first)];  // Superblocks stay where they are.
  }
  // Failure leaves the pages in place: nothing is lost but memory of the system.
  const std::uint64_t offset = std::uint64_t{extent.first - superblock->first.value()} * kUnit;
  if (give_back && offset % superblock->memfd.page_bytes() == 0 &&
      extent.units * kUnit % superblock->memfd.page_bytes() == 0) {
    if (superblock->memfd.punch_hole(offset, extent.units * kUnit)) return;
  }
  // What cannot be given back (part of a huge page) must read as free headers.
  sync::shared_zero(address(FrameId(extent.first)), extent.units * kUnit);
}

void FrameStore::end_quarantine() {
  if (quarantine_.empty()) return;
  const Instant now = clock_.now();
  while (!quarantine_.empty() && quarantine_.front().reusable <= now) {
    quarantine_bytes_ -= quarantine_.front().extent.units * kUnit;
    add_free(quarantine_.front().extent);
    quarantine_.pop_front();
    rest_ -= std::min<std::size_t>(rest_, 1);
  }
}

bool FrameStore::take_best_fit(std::uint32_t units, std::uint32_t& first) {
  const auto fit = by_size_.lower_bound({units, 0});
  if (fit == by_size_.end()) return false;
  const Extent extent{fit->second, fit->first};
  remove_free(free_.find(extent.first));
  first = extent.first;
  if (extent.units > units) {
    free_.emplace(first + units, extent.units - units);
    by_size_.emplace(extent.units - units, first + units);
  }
  return true;
}

void FrameStore::remove_free(std::map<std::uint32_t, std::uint32_t>::iterator at) {
  by_size_.erase({at->second, at->first});
  free_.erase(at);
}

void FrameStore::add_free(Extent extent) {
  const std::uint32_t superblock_units = static_cast<std::uint32_t>(superblock_bytes_ / kUnit);
  auto next = free_.lower_bound(extent.first);
  if (next != free_.end() && next->first == extent.first + extent.units &&
      next->first % superblock_units != 0) {
    extent.units += next->second;
    remove_free(next);
  }
  auto previous = free_.lower_bound(extent.first);
  if (previous != free_.begin()) {
    --previous;
    if (previous->first + previous->second == extent.first && extent.first % superblock_units != 0) {
      extent = {previous->first, previous->second + extent.units};
      remove_free(previous);
    }
  }
  free_.emplace(extent.first, extent.units);
  by_size_.emplace(extent.units, extent.first);
}

Result<void> FrameStore::add_superblock() {
  YONDER_TRY(memfd, os::Memfd::create(
                        {.name = "yonder-superblock", .size = superblock_bytes_, .huge_pages = huge_pages_}));
  YONDER_TRY(superblock, map_superblock(std::move(memfd)));
  if (on_superblock_) YONDER_TRY_VOID(on_superblock_(superblock));
  const FrameId first = superblock.first;
  superblocks_.push_back(std::move(superblock));
  add_free({first.value(), static_cast<std::uint32_t>(superblock_bytes_ / kUnit)});
  return {};
}

// The next one, at its place in the arena.
Result<Superblock> FrameStore::map_superblock(os::Memfd memfd) {
  const std::uint64_t offset = superblocks_.size() * superblock_bytes_;
  if (offset + superblock_bytes_ > arena_.size()) {
    return fail(ErrorCode::kOutOfMemory, "take a frame: no room in the arena",
                static_cast<std::int64_t>(arena_.size()));
  }
  YONDER_TRY_VOID(arena_.remap_file(offset, memfd.fd(),
                                    {.bytes = superblock_bytes_, .protection = os::Protection::kReadWrite}));
  return Superblock{std::move(memfd), FrameId(static_cast<std::uint32_t>(offset / kUnit)),
                    arena_.bytes(offset, superblock_bytes_)};
}

// ---------------------------------------------------------------- adoption

Result<void> FrameStore::adopt_superblock(os::Memfd memfd) {
  if (memfd.size() != superblock_bytes_) {
    return fail(ErrorCode::kCorrupt, "adopt a superblock: its size", static_cast<std::int64_t>(memfd.size()));
  }
  sync::LockGuard lock(mutex_);
  YONDER_TRY(superblock, map_superblock(std::move(memfd)));
  superblocks_.push_back(std::move(superblock));
  return {};
}

Result<void> FrameStore::check_claim(std::span<const FrameExtent> sorted) const {
  const std::uint64_t superblock_units = superblock_bytes_ / kUnit;
  const std::uint64_t all_units = unit_count();
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;
  for (const auto& [frame, frame_bytes] : sorted) {
    const std::uint64_t first = frame.value();
    const std::uint64_t units = frame_bytes / kUnit;
    if (first < end || units == 0 || units > superblock_units || first + units > all_units ||
        first / superblock_units != (first + units - 1) / superblock_units) {
      return fail(ErrorCode::kCorrupt, "adopt frames: they overlap, or lie outside", frame.value());
    }
    end = first + units;
    bytes += frame_bytes;
  }
  if (bytes <= limit_) return {};
  return fail(ErrorCode::kOutOfMemory, "adopt frames: more than the node's memory limit",
              static_cast<std::int64_t>(bytes));
}

Result<void> FrameStore::claim(std::vector<FrameExtent> frames) {
  std::ranges::sort(frames);
  YONDER_TRY_VOID(check_claim(frames));
  std::vector<Extent> used;
  std::uint64_t bytes = 0;
  for (const auto& [frame, frame_bytes] : frames) {
    used.push_back({frame.value(), static_cast<std::uint32_t>(frame_bytes / kUnit)});
    bytes += frame_bytes;
  }
  const std::vector<Extent> rest = give_rest_back(used);
  sync::LockGuard lock(mutex_);
  active_bytes_ = bytes;
  // One-sided readers may still have the memory mapped from before.
  const Instant reusable = clock_.now() + quarantine_time_;
  for (const Extent& extent : rest) {
    quarantine_bytes_ += extent.units * kUnit;
    quarantine_.push_back({extent, reusable});
  }
  rest_ = rest.size();
  // After the pages are gone: a NIC pins those it finds at registration.
  for (const Superblock& superblock : superblocks_) {
    if (on_superblock_) YONDER_TRY_VOID(on_superblock_(superblock));
  }
  return {};
}

// Right after an adoption all free memory is in quarantine. Waiting once costs some
// milliseconds, another superblock would stay for ever.
bool FrameStore::await_rest() {
  if (rest_ == 0) return false;
  std::this_thread::sleep_for(quarantine_[rest_ - 1].reusable - clock_.now());
  for (; rest_ != 0; --rest_) {
    quarantine_bytes_ -= quarantine_.front().extent.units * kUnit;
    add_free(quarantine_.front().extent);
    quarantine_.pop_front();
  }
  return true;
}

std::vector<FrameStore::Extent> FrameStore::give_rest_back(std::span<const Extent> frames) {
  const auto superblock_units = static_cast<std::uint32_t>(superblock_bytes_ / kUnit);
  std::vector<Extent> rest;
  auto next = frames.begin();
  for (std::uint32_t first = 0; first < unit_count(); first += superblock_units) {
    const std::uint32_t end = first + superblock_units;
    for (std::uint32_t unit = first; unit < end;) {
      const bool is_last = next == frames.end() || next->first >= end;
      const std::uint32_t gap_end = is_last ? end : next->first;
      if (unit < gap_end) rest.push_back({unit, gap_end - unit});
      unit = gap_end;
      if (!is_last) unit += (next++)->units;
    }
  }
  for (const Extent& extent : rest) punch(extent, /*give_back=*/true);
  return rest;
}

std::size_t FrameStore::superblock_of(std::uint32_t unit) const {
  const std::size_t index = unit / (superblock_bytes_ / kUnit);
  YONDER_CHECK(index < superblocks_.size(), "a frame lies in a superblock");
  return index;
}

FrameStore::FilePlace FrameStore::file_place(FrameId frame) const {
  sync::LockGuard lock(mutex_);
  const Superblock& superblock = superblocks_[superblock_of(frame.value())];  // It stays where it is.
  return {.fd = &superblock.memfd.fd(),
          .offset = std::uint64_t{frame.value() - superblock.first.value()} * kUnit};
}

std::uint32_t FrameStore::unit_count() const {
  sync::LockGuard lock(mutex_);
  return static_cast<std::uint32_t>(superblocks_.size() * (superblock_bytes_ / kUnit));
}

std::uint64_t FrameStore::active_bytes() const {
  sync::LockGuard lock(mutex_);
  return active_bytes_;
}

std::uint64_t FrameStore::quarantine_bytes() const {
  sync::LockGuard lock(mutex_);
  return quarantine_bytes_;
}

void FrameStore::for_each_superblock(const std::function<void(const Superblock&)>& visit) const {
  sync::LockGuard lock(mutex_);
  for (const Superblock& superblock : superblocks_) visit(superblock);
}

void FrameStore::check_invariants() const {
  sync::LockGuard lock(mutex_);
  YONDER_CHECK(free_.size() == by_size_.size(), "both free indexes hold the same extents");
  YONDER_CHECK(active_bytes_ <= limit_, "F3: the limit holds");
  const std::uint32_t superblock_units = static_cast<std::uint32_t>(superblock_bytes_ / kUnit);
  std::uint64_t free_units = 0;
  std::uint32_t previous_end = UINT32_MAX;
  for (const auto& [first, units] : free_) {
    YONDER_CHECK(by_size_.contains({units, first}), "both free indexes hold the same extents");
    YONDER_CHECK(first != previous_end || first % superblock_units == 0, "F2: neighbours are merged");
    YONDER_CHECK(first / superblock_units == (first + units - 1) / superblock_units,
                 "extents lie in one superblock");
    previous_end = first + units;
    free_units += units;
  }
  const std::uint64_t all_units = std::uint64_t{superblocks_.size()} * superblock_units;
  YONDER_CHECK((free_units * kUnit) + active_bytes_ + quarantine_bytes_ == all_units * kUnit,
               "F1: every unit is somewhere");
}

}  // namespace yonder::node
