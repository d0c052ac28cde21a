#include "yonder/fabric/shm/internal/region_table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <mutex>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"

namespace yonder::fabric::shm {

os::Fd share_descriptor(std::span<std::byte> memory, Rights rights, const std::optional<Backing>& backing) {
  if (!backing || backing->fd < 0 || backing->offset != 0) return {};
  struct stat status{};
  if (::fstat(backing->fd, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != memory.size())
    return {};
  // A file that cannot be sealed could grow past the region or shrink under a
  // peer: it is served instead.
  const int want = F_SEAL_SHRINK | F_SEAL_GROW;
  const int have = ::fcntl(backing->fd, F_GET_SEALS);
  if (have < 0) return {};
  if ((have & want) != want && ::fcntl(backing->fd, F_ADD_SEALS, want) != 0) return {};
  os::Fd borrowed(backing->fd);
  auto shared = allows(rights, Rights::kWrite) || allows(rights, Rights::kAtomic)
                    ? borrowed.duplicate()
                    : borrowed.reopen_read_only();
  (void)borrowed.release();
  // Out of descriptors: slower, but not wrong.
  return shared ? std::move(*shared) : os::Fd();
}

RegionTable::~RegionTable() { YONDER_CHECK(entries_.empty(), "a fabric outlives its regions"); }

Result<std::uint32_t> RegionTable::take_slot() {
  if (!free_slots_.empty()) {
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  if (next_slot_ == kRegionSlots)
    return fail(ErrorCode::kResourceExhausted, "register memory: 2^20 regions per shm fabric", kRegionSlots);
  return next_slot_++;
}

Result<RegionKey> RegionTable::add(const RegisterOptions& options) {
  if (options.memory.empty()) return fail(ErrorCode::kInvalidArgument, "register memory: empty");
  if (options.rights == Rights::kNone || !allows(Rights::kAll, options.rights))
    return fail(ErrorCode::kInvalidArgument, "register memory: rights", static_cast<int>(options.rights));
  if (options.on_demand_paging) return fail(ErrorCode::kUnsupported, "register memory: on-demand paging");
  RegionEntry entry{.memory = options.memory, .rights = options.rights, .tenant = options.tenant};
  entry.shared = share_descriptor(options.memory, options.rights, options.backing);
  YONDER_TRY(key, secure_random_u64());
  entry.key = RegionKey{key};
  const std::unique_lock lock(mutex_);
  // 0 marks an empty place in the initiators' tables. Both cases: 2^-44 at most.
  if (key == 0 || entries_.contains(key))
    return fail(ErrorCode::kResourceExhausted, "register memory: key drawn twice");
  YONDER_TRY(slot, take_slot());
  std::atomic<std::uint64_t>& word = states_.region(slot);
  entry.slot = slot;
  entry.state = word.load(std::memory_order_relaxed) + 1;  // Ours alone: the slot is free, its word even.
  // release: whoever learns of the region does so through the socket, later.
  word.store(entry.state, std::memory_order_release);
  entries_.emplace(key, std::move(entry));
  return RegionKey{key};
}

Result<void> RegionTable::rebind(RegionKey key, std::span<std::byte> memory, std::optional<Backing> backing) {
  if (memory.empty()) return fail(ErrorCode::kInvalidArgument, "rebind region: empty");
  std::uint64_t old_hazard = 0;
  bool exposed = false;
  {
    const std::unique_lock lock(mutex_);
    const auto found = entries_.find(key.value);
    if (found == entries_.end()) return fail(ErrorCode::kClosed, "rebind region: revoked");
    RegionEntry& entry = found->second;
    old_hazard = hazard_of(entry.slot, entry.state);
    exposed = std::exchange(entry.exposed, false);
    entry.memory = memory;
    entry.shared = share_descriptor(memory, entry.rights, backing);
    entry.state += 2;
    // seq_cst: V1, before the heavy fence.
    states_.region(entry.slot).store(entry.state, std::memory_order_seq_cst);
  }
  if (exposed) quiesce_(old_hazard);
  return {};
}

void RegionTable::revoke(RegionKey key) {
  std::uint32_t slot = 0;
  std::uint64_t state = 0;
  bool exposed = false;
  {
    const std::unique_lock lock(mutex_);
    const auto found = entries_.find(key.value);
    if (found == entries_.end()) return;
    slot = found->second.slot;
    state = found->second.state;
    exposed = found->second.exposed;
    states_.region(slot).store(state + 1, std::memory_order_seq_cst);  // V1
    entries_.erase(found);
  }
  if (exposed) quiesce_(hazard_of(slot, state));
  // Only now: until V3 is over the slot's hazards must mean this region.
  const std::unique_lock lock(mutex_);
  free_slots_.push_back(slot);
}

std::size_t RegionTable::size() const {
  const std::shared_lock lock(mutex_);
  return entries_.size();
}

}  // namespace yonder::fabric::shm
