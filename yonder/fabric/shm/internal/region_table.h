#pragma once
// The target's regions: who may reach which memory, and how it is taken back.
//
// A region is *direct* for a foreign peer if the memory is a whole memfd: the
// peer gets a descriptor (read-only if the region allows only reading) and maps
// it. The file is sealed in size at registration, so that the descriptor grants
// exactly the region and can neither grow past it nor shrink under the peer's
// feet. Everything else is *served*: the service thread executes each access
// here, under `mutex_`. A peer in our own process gets the address.
//
// How a direct access and a revocation meet (R: initiator, V: revoker; the
// region word is in the state file, the hazard in the link file):
//
//   R1 hazard := (slot, state)         V1 word := state + 1 (rebind: + 2)
//   R2 light fence                     V2 heavy fence
//   R3 word == state ? else give up    V3 wait until no lane's hazard is (slot, state)
//   R4 copy                            V4 the memory is the owner's alone
//   R5 reads: word == state ? else the bytes do not count
//   R6 hazard := 0
//
//            | word == state                  | word != state
//   hazard 0 | no access                      | no access
//   hazard h | access, V3 will wait           | access that started before V1 (V3 waits),
//            |                                | or that is about to give up at R3
//
// I1  If R3 succeeds, then R1 is visible at V3. (The fences: if R3 read the old
//     word, R1's store is before V2's barrier on R's processor.)
// I2  After V3 nobody copies under the old state: an access that began before was
//     waited for (R6 is a release, V3 acquires it), and any later one fails at R3.
// I3  A state value is used once, so a new registration in the same slot is never
//     mistaken for the old one, and a rebind's wait is not prolonged by accesses
//     to the new memory.
//
// V3 is bounded: a peer that is dead does not count, and one that does not leave
// in time (stopped, or hostile) loses its connection; should it wake up inside a
// read, R5 keeps it from reporting the bytes. See docs/fabric-shm.md for what a
// hostile peer with a mapping can do.
//
// Concurrency: all functions from any thread. V3 runs without the lock.
// Lifetime: the fabric's; RegionImpl handles refer to it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/region.h"
#include "yonder/fabric/shm/internal/layout.h"
#include "yonder/fabric/shm/internal/state_file.h"
#include "yonder/os/fd.h"

namespace yonder::fabric::shm {

struct RegionEntry {
  RegionKey key;
  std::span<std::byte> memory;
  Rights rights = Rights::kNone;
  TenantId tenant{0};
  std::uint32_t slot = 0;
  std::uint64_t state = 0;
  os::Fd shared;  // What foreign peers get; invalid: served.
  // Whether some peer was told how to reach it directly: else there is no one to
  // wait for. Set by the service thread under the shared lock, read under the
  // exclusive one.
  mutable bool exposed = false;
};

class RegionTable {
 public:
  // V2 and V3 for one old hazard: provided by whoever knows the connections.
  using Quiesce = std::function<void(std::uint64_t hazard)>;

  RegionTable(StateFile& states, Quiesce quiesce) : states_(states), quiesce_(std::move(quiesce)) {}
  ~RegionTable();

  // kInvalidArgument (empty memory, no rights), kUnsupported (on-demand paging),
  // kResourceExhausted (2^20 regions).
  Result<RegionKey> add(const RegisterOptions& options);
  // kClosed if the region is gone.
  Result<void> rebind(RegionKey key, std::span<std::byte> memory, std::optional<Backing> backing);
  // V1 to V4. Idempotent.
  void revoke(RegionKey key);

  // Calls use(entry) under the lock, so that the entry cannot change meanwhile;
  // kUnknownKey or kTenantDenied without calling.
  template <typename Use>
  ErrorCode with(RegionKey key, TenantId tenant, Use use) const {
    const std::shared_lock lock(mutex_);
    const auto found = entries_.find(key.value);
    if (found == entries_.end()) return ErrorCode::kUnknownKey;
    const RegionEntry& entry = found->second;
    if (entry.tenant != TenantId{0} && entry.tenant != tenant) return ErrorCode::kTenantDenied;
    return use(entry);
  }

  std::size_t size() const;

 private:
  Result<std::uint32_t> take_slot();

  StateFile& states_;
  const Quiesce quiesce_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, RegionEntry> entries_;  // Guarded by mutex_.
  std::vector<std::uint32_t> free_slots_;                   // Guarded by mutex_.
  std::uint32_t next_slot_ = 0;                             // Guarded by mutex_.
};

// The descriptor to share for this memory; invalid if the region must be served.
os::Fd share_descriptor(std::span<std::byte> memory, Rights rights, const std::optional<Backing>& backing);

}  // namespace yonder::fabric::shm
