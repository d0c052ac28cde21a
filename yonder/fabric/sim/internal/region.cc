#include "yonder/fabric/sim/internal/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/engine.h"

namespace yonder::fabric::sim {
namespace {

constexpr Ticks kAbsent = std::numeric_limits<Ticks>::max();

}  // namespace

PhysicalView::PhysicalView(PhysicalView&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

PhysicalView& PhysicalView::operator=(PhysicalView&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

PhysicalView::~PhysicalView() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

Result<PhysicalView> PhysicalView::of(std::span<std::byte> memory, const Backing& backing) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t slack = backing.offset % page;
  PhysicalView view;
  view.mapped_bytes_ = memory.size() + slack;
  void* const mapping = ::mmap(nullptr, view.mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, backing.fd,
                               static_cast<off_t>(backing.offset - slack));
  if (mapping == MAP_FAILED) return fail_errno("map a region's file for the simulated NIC");
  view.mapping_ = mapping;
  view.data_ = static_cast<std::byte*>(mapping) + slack;
  return view;
}

RegionImpl::RegionImpl(Engine& engine, HostState& host, const RegisterOptions& options, PhysicalView view,
                       RegionKey key, std::uint64_t serial, std::uint32_t socket)
    : engine_(engine),
      host_(host),
      memory_(options.memory),
      view_(std::move(view)),
      base_(view_.data() != nullptr ? view_.data() : memory_.data()),
      key_(key),
      serial_(serial),
      rights_(options.rights),
      tenant_(options.tenant),
      on_demand_(options.on_demand_paging),
      socket_(socket),
      page_bytes_(host.page_bytes()) {
  ref_ = engine_.add_region(*this, host_);
}

RegionImpl::~RegionImpl() { revoke(); }

RegionToken RegionImpl::token() const {
  return {.key = key_, .length = memory_.size(), .rights = rights_, .atomics = AtomicsBy::kNic};
}

void RegionImpl::revoke() {
  if (!std::exchange(live_, false)) return;
  // Accesses under way find their Ref stale at the next step: nothing touches the
  // memory after this.
  engine_.remove_region(*this, host_);
}

Result<void> RegionImpl::rebind(std::span<std::byte> memory, std::optional<Backing> backing) {
  if (!live_) return fail(ErrorCode::kClosed, "rebind a revoked region");
  if (memory.size() != memory_.size()) {
    return fail(ErrorCode::kInvalidArgument, "rebind: the length must stay",
                static_cast<std::int64_t>(memory.size()));
  }
  PhysicalView view;
  if (backing && !on_demand_) {
    YONDER_TRY(mapped, PhysicalView::of(memory, *backing));
    view = std::move(mapped);
  }
  if (!on_demand_) {
    // The NIC must forget the old translations before the new ones count; what
    // touches the region meanwhile, or does so now, loses its queue pair.
    reregistering_until_ = engine_.now() + host_.nic(0).scaled(host_.nic(0).model().reregister);
    engine_.break_accessors(ref_);
  }
  memory_ = memory;
  view_ = std::move(view);
  base_ = view_.data() != nullptr ? view_.data() : memory_.data();
  if (on_demand_) {
    invalidate(0, memory_.size());
  } else {
    engine_.pass_time(reregistering_until_);
  }
  return {};
}

Result<void> RegionImpl::prefetch(std::uint64_t offset, std::uint64_t length) {
  if (!live_) return fail(ErrorCode::kClosed, "prefetch of a revoked region");
  if (!on_demand_) return fail(ErrorCode::kUnsupported, "prefetch: not an on-demand-paging region");
  if (length == 0 || offset > memory_.size() || length > memory_.size() - offset) {
    return fail(ErrorCode::kOutOfBounds, "prefetch", static_cast<std::int64_t>(offset));
  }
  const Ticks ready = engine_.now() + host_.nic(0).scaled(host_.nic(0).model().odp_prefetch);
  for (std::uint64_t i = 0; i < pages(offset, length); ++i) {
    const auto page = page_ready_.find(page_of(offset) + i);
    if (page != page_ready_.end() && page->second == kAbsent) page->second = ready;
  }
  engine_.pass_time(ready);
  return {};
}

void RegionImpl::pages_remapped(std::uint64_t offset, std::uint64_t length) {
  YONDER_CHECK(length != 0 && offset <= memory_.size() && length <= memory_.size() - offset,
               "the pages that were remapped are the region's");
  invalidate(offset, length);
}

Ticks RegionImpl::page_in(std::uint64_t offset, std::uint64_t length, Ticks now, Ticks fault) {
  if (!on_demand_) return now;
  Ticks all = now;
  for (std::uint64_t i = 0; i < pages(offset, length); ++i) {
    const auto page = page_ready_.find(page_of(offset) + i);
    if (page == page_ready_.end()) continue;
    if (page->second == kAbsent) page->second = now + fault;
    all = std::max(all, page->second);
  }
  return all;
}

void RegionImpl::invalidate(std::uint64_t offset, std::uint64_t length) {
  if (!on_demand_) return;
  for (std::uint64_t i = 0; i < pages(offset, length); ++i) page_ready_[page_of(offset) + i] = kAbsent;
}

}  // namespace yonder::fabric::sim
