#include "yonder/fabric/verbs/internal/region_table.h"

#include <cerrno>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/verbs/internal/bounce_pool.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::verbs {
namespace {

std::uint64_t page_offset(const std::byte* data) {
  return reinterpret_cast<std::uint64_t>(data) % os::kPageBytes;
}

// NICs do atomics on aligned words only, and offsets count from the region's start.
bool is_fit(std::span<std::byte> memory, Rights rights) {
  return !allows(rights, Rights::kAtomic) || reinterpret_cast<std::uint64_t>(memory.data()) % 8 == 0;
}

unsigned access_flags(const RegisterOptions& options) {
  unsigned access = IBV_ACCESS_LOCAL_WRITE;
  if (allows(options.rights, Rights::kRead)) access |= IBV_ACCESS_REMOTE_READ;
  if (allows(options.rights, Rights::kWrite)) access |= IBV_ACCESS_REMOTE_WRITE;
  if (allows(options.rights, Rights::kAtomic)) access |= IBV_ACCESS_REMOTE_ATOMIC;
  if (options.on_demand_paging) access |= IBV_ACCESS_ON_DEMAND;
  return access;
}

}  // namespace

RegionTable::~RegionTable() {
  YONDER_CHECK(free_slots_.size() == next_slot_, "a fabric outlives its regions");
}

Result<std::uint32_t> RegionTable::take_slot() {
  const std::scoped_lock lock(mutex_);
  if (!free_slots_.empty()) {
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  if (next_slot_ == kChunkSlots * kChunks) {
    return fail(ErrorCode::kResourceExhausted, "register memory: too many regions", next_slot_);
  }
  if (next_slot_ % kChunkSlots == 0) {
    owned_.push_back(std::make_unique<Chunk>());
    // release: pairs with local_address(); the chunk is initialised.
    chunks_[next_slot_ / kChunkSlots].store(owned_.back().get(), std::memory_order_release);
    free_slots_.reserve(owned_.size() * kChunkSlots);
  }
  return next_slot_++;
}

void RegionTable::give_slot(std::uint32_t slot) {
  const std::scoped_lock lock(mutex_);
  free_slots_.push_back(slot);
}

void RegionTable::set_difference(std::uint32_t slot, std::uint64_t difference) {
  Chunk* chunk = chunks_[slot / kChunkSlots].load(std::memory_order_acquire);
  // relaxed: whoever uses the slot got its LocalKey from this region's owner, by
  // some synchronisation of their own.
  (*chunk)[slot % kChunkSlots].store(difference, std::memory_order_relaxed);
}

void RegionTable::publish(RegionKey key, const Entry& entry) {
  const std::scoped_lock lock(mutex_);
  published_[key.value] = entry;
}

void RegionTable::withdraw(RegionKey key) {
  const std::scoped_lock lock(mutex_);
  published_.erase(key.value);
}

RegionTable::Explanation RegionTable::explain(const Access& access) const {
  const std::scoped_lock lock(mutex_);
  const auto found = published_.find(access.remote.key.value);
  if (found == published_.end()) return {ErrorCode::kUnknownKey, {}};
  const Entry& entry = found->second;
  const ErrorCode reason =
      check_access(access.op, access.remote.offset, access.length, entry.length, entry.rights);
  if (reason != ErrorCode::kOk) return {reason, {}};
  // Nothing is wrong with it now, and there is no other key to use: all we can
  // say is that the NIC refused.
  if (entry.current_key == access.remote.key) return {ErrorCode::kAccessDenied, {}};
  return {ErrorCode::kOk, entry.current_key};
}

// ---------------------------------------------------------------- one region

Result<std::unique_ptr<RegionImpl>> VerbsRegion::create(std::shared_ptr<Device> device, RegionTable& table,
                                                        const RegisterOptions& options) {
  if (options.memory.empty() || options.rights == Rights::kNone) {
    return fail(ErrorCode::kInvalidArgument, "register memory: no bytes or no rights");
  }
  if (!is_fit(options.memory, options.rights)) {
    return fail(ErrorCode::kMisaligned, "register memory: atomics need a start that is a multiple of 8");
  }
  if (options.tenant != TenantId{0}) {
    return fail(ErrorCode::kUnsupported, "register memory for one tenant: a NIC does not know tenants");
  }
  if (options.on_demand_paging && !device->on_demand_paging()) {
    return fail(ErrorCode::kUnsupported, "register memory: the device has no on-demand paging");
  }
  YONDER_TRY(slot, table.take_slot());
  std::unique_ptr<VerbsRegion> region(new VerbsRegion(std::move(device), table, access_flags(options), slot));
  YONDER_TRY(registration, region->register_memory(options.memory));
  region->token_ = {.length = options.memory.size(), .rights = options.rights, .atomics = AtomicsBy::kNic};
  region->bind(options.memory, registration);
  return region;
}

VerbsRegion::~VerbsRegion() {
  revoke();
  table_.give_slot(slot_);
}

Result<ibv_mr*> VerbsRegion::register_memory(std::span<std::byte> memory) {
  const std::uint64_t first = page_offset(memory.data());
  auto registration = register_with_nic(*device_, memory.data(), memory.size(), first, access_);
  constexpr unsigned kWriting = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const bool read_only = (access_ & kWriting) == IBV_ACCESS_LOCAL_WRITE;
  if (!registration && read_only) {
    // Perhaps the memory is mapped read-only: it can still be read by peers.
    return register_with_nic(*device_, memory.data(), memory.size(), first,
                             access_ & ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE));
  }
  return registration;
}

void VerbsRegion::bind(std::span<std::byte> memory, ibv_mr* registration) {
  const std::uint64_t first = page_offset(memory.data());
  memory_ = memory;
  registration_ = registration;
  table_.set_difference(slot_, first - reinterpret_cast<std::uint64_t>(memory.data()));
  // Without random bits the key is as guessable as the rkey, which the NIC checks
  // anyway: no reason to fail.
  const auto salt = static_cast<std::uint32_t>(secure_random_u64().value_or(0)) & 0xfffff;
  const RegionKey current = encode_key(
      {.rkey = registration->rkey, .page_offset = static_cast<std::uint32_t>(first), .salt = salt});
  if (token_.key == RegionKey{}) token_.key = current;
  table_.publish(token_.key, {.length = token_.length, .rights = token_.rights, .current_key = current});
}

LocalKey VerbsRegion::local_key() const {
  return registration_ == nullptr ? kUnregistered : RegionTable::local_key(slot_, registration_->lkey);
}

Result<void> VerbsRegion::rebind(std::span<std::byte> memory, std::optional<Backing>) {
  if (registration_ == nullptr) return fail(ErrorCode::kClosed, "rebind a revoked region");
  if (memory.size() != token_.length) {
    return fail(ErrorCode::kInvalidArgument, "rebind: another length needs another token",
                static_cast<std::int64_t>(memory.size()));
  }
  if (!is_fit(memory, token_.rights)) {
    return fail(ErrorCode::kMisaligned, "rebind: atomics need a start that is a multiple of 8");
  }
  YONDER_TRY(registration, register_memory(memory));
  ibv_mr* old = registration_;
  // The new key is published first: whoever is refused from here on is told it.
  bind(memory, registration);
  device_->library().dereg_mr(old);
  return {};
}

Result<void> VerbsRegion::prefetch(std::uint64_t offset, std::uint64_t length) {
  if (registration_ == nullptr) return fail(ErrorCode::kClosed, "prefetch a revoked region");
  if ((access_ & IBV_ACCESS_ON_DEMAND) == 0) {
    return fail(ErrorCode::kUnsupported, "prefetch: the region has no on-demand paging");
  }
  if (offset > memory_.size() || length > memory_.size() - offset || length > UINT32_MAX) {
    return fail(ErrorCode::kOutOfBounds, "prefetch", static_cast<std::int64_t>(offset));
  }
  ibv_sge range{.addr = page_offset(memory_.data()) + offset,
                .length = static_cast<std::uint32_t>(length),
                .lkey = registration_->lkey};
  const auto advice = (access_ & IBV_ACCESS_REMOTE_WRITE) != 0 ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
                                                               : IBV_ADVISE_MR_ADVICE_PREFETCH;
  const int error = ::ibv_advise_mr(device_->pd(), advice, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1);
  if (error == EOPNOTSUPP) return fail(ErrorCode::kUnsupported, "ibv_advise_mr", error);
  if (error != 0) return std::unexpected(Error::from_errno("ibv_advise_mr", error));
  return {};
}

void VerbsRegion::revoke() {
  if (registration_ == nullptr) return;
  table_.withdraw(token_.key);
  device_->library().dereg_mr(registration_);
  registration_ = nullptr;
}

}  // namespace yonder::fabric::verbs
