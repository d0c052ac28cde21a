#pragma once
// Holding: a segment as one process has it, in whatever state (agent.h has the table).
//
// Its bytes are a memfd, mapped where the application sees it and a second time
// elsewhere: from there peers read it when it leaves (the first mapping is taken away by
// then), and there its pages are filled when it arrives.
//
// Concurrency: `state` and what it decides about under `mutex`; the memory itself is the
// application's. Lifetime: shared by the agent's table, its mover thread and calls under
// way; the last one unmaps.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/region.h"
#include "yonder/fabric/types.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/segment/arena.h"
#include "yonder/segment/directory.h"
#include "yonder/segment/internal/arrival.h"
#include "yonder/sync/mutex.h"

namespace yonder::segment::internal {

enum class HoldingState : std::uint8_t {
  kOwned,     // ours, all of it here
  kOffered,   // ours; a target is ready for it
  kLeaving,   // the target's; we keep the bytes that it has not read yet
  kInDoubt,   // fenced; the directory did not say whether it was committed
  kExpected,  // the source's; we are ready for it
  kArriving,  // ours; bytes are still at the source
  kGone,      // nothing is left of it here
};

struct Holding {
  const SegmentId id;
  const SlotRange slots;
  const std::uint64_t bytes;
  os::Memfd file;
  os::Mapping second;  // the other mapping of the file

  sync::Mutex mutex;
  sync::Condition changed;
  HoldingState state YONDER_GUARDED_BY(mutex) = HoldingState::kOwned;
  Epoch epoch YONDER_GUARDED_BY(mutex);     // of the owner as far as we know
  ProcessId peer YONDER_GUARDED_BY(mutex);  // where it goes, or comes from

  // Source: from connect() to the end.
  fabric::Region region YONDER_GUARDED_BY(mutex);
  os::Mapping room YONDER_GUARDED_BY(mutex);
  std::uint64_t bytes_told YONDER_GUARDED_BY(mutex) = 0;  // arrived at the target, it says
  ProcessId keeper YONDER_GUARDED_BY(mutex);              // source and target: who keeps a copy; 0: nobody

  // Target: from the offer to the end.
  std::shared_ptr<Arrival> arrival YONDER_GUARDED_BY(mutex);
  bool release_early YONDER_GUARDED_BY(mutex) = false;
  fabric::EndpointId offered_on YONDER_GUARDED_BY(mutex){0};  // the connection that may transfer
  std::jthread mover;

  Holding(const SegmentRecord& record, os::Memfd memory, os::Mapping other)
      : id(record.id),
        slots(record.slots),
        bytes(record.bytes),
        file(std::move(memory)),
        second(std::move(other)),
        epoch(record.epoch) {}

  std::span<std::byte> seen(const Arena& arena) const {
    return {arena.address_of(slots), static_cast<std::size_t>(bytes)};
  }

  HoldingState current_state() {
    const sync::LockGuard lock(mutex);
    return state;
  }
  void set_state(HoldingState next) {
    const sync::LockGuard lock(mutex);
    state = next;
    changed.notify_all();
  }
  ProcessId current_peer() {
    const sync::LockGuard lock(mutex);
    return peer;
  }
  ProcessId current_keeper() {
    const sync::LockGuard lock(mutex);
    return keeper;
  }
  Epoch current_epoch() {
    const sync::LockGuard lock(mutex);
    return epoch;
  }
  void set_epoch(Epoch next) {
    const sync::LockGuard lock(mutex);
    epoch = next;
  }
  os::Mapping take_room() {
    const sync::LockGuard lock(mutex);
    return std::move(room);
  }
  void set_room(os::Mapping mapping) {
    const sync::LockGuard lock(mutex);
    room = std::move(mapping);
  }
  std::shared_ptr<Arrival> current_arrival() {
    const sync::LockGuard lock(mutex);
    return arrival;
  }
};

// A file of the record's size, mapped in the arena and a second time.
Result<std::shared_ptr<Holding>> make_holding(Arena& arena, const SegmentRecord& record);

// Where the file has data, from `from` on, at most `limit` ranges. Gaps shorter than
// `join` are taken as data.
struct DataRangesOptions {
  std::uint64_t from = 0;
  std::size_t limit = 0;
  std::uint64_t join = 0;
};
Result<std::vector<ByteRange>> data_ranges(const os::Memfd& file, const DataRangesOptions& options);

}  // namespace yonder::segment::internal
