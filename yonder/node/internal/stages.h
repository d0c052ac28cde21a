#pragma once
// Stages: bytes of large objects on their way into or out of the heap.
//
// A stage is filled part by part, in order, and then used as a whole; so memory
// that nobody has written is never read, and a half-finished upload is nothing but
// a stage that expires.
//
//   state      | put (next part) | take           | get            | drop, or unused for the timeout
//   -----------+-----------------+----------------+----------------+--------------------------------
//   filling    | filling, full   | kInvalidArg.   | kInvalidArg.   | gone
//   full       | kOutOfBounds    | gone           | the bytes      | gone
//
// Bounds: `max_count` stages and `max_bytes` of all; beyond them kOverloaded. What
// was left behind by clients that died goes when its place is needed, or by expire().
//
// Concurrency: any thread; one mutex, held while a part is copied (parts are small).
// Lifetime: owned by a port; a stage belongs to one connection of it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/types.h"
#include "yonder/sync/mutex.h"

namespace yonder::node::internal {

struct StageLimits {
  std::uint32_t max_count = 64;
  std::uint64_t max_bytes = std::uint64_t{256} << 20;
  Duration timeout = std::chrono::seconds(10);
};

// The bytes of a full stage. Move-only.
struct StagedBytes {
  std::unique_ptr<std::byte[]> memory;
  std::size_t size = 0;
  std::span<std::byte> bytes() const { return {memory.get(), size}; }
};

class Stages {
 public:
  Stages(const Clock& clock, const StageLimits& limits) : clock_(clock), limits_(limits) {}

  // An empty stage for `bytes` (> 0); returns its ticket. kOverloaded.
  Result<std::uint64_t> open(fabric::EndpointId owner, std::uint64_t bytes);
  // A full one. kOverloaded.
  Result<std::uint64_t> keep(fabric::EndpointId owner, StagedBytes bytes);

  // All below: kNotFound if `owner` has no such stage (any more).
  // kOutOfBounds: not the next part, or beyond the end.
  Result<void> put(fabric::EndpointId owner, std::uint64_t ticket, std::uint64_t offset,
                   std::span<const std::byte> data);
  // kOutOfBounds: beyond the end; kInvalidArgument: not full.
  Result<void> get(fabric::EndpointId owner, std::uint64_t ticket, std::uint64_t offset,
                   std::span<std::byte> out);
  // Ends the stage and returns its bytes. kInvalidArgument: not full (it stays).
  Result<StagedBytes> take(fabric::EndpointId owner, std::uint64_t ticket);
  Result<void> drop(fabric::EndpointId owner, std::uint64_t ticket);

  // Drops what was unused for the timeout.
  void expire();
  std::uint64_t bytes() const;

 private:
  struct Entry {
    fabric::EndpointId owner{0};
    StagedBytes bytes;
    std::uint64_t filled = 0;
    Instant used;
  };
  using Map = std::unordered_map<std::uint64_t, Entry>;

  Result<void> make_room(std::uint64_t bytes) YONDER_REQUIRES(mutex_);
  std::uint64_t add(Entry entry) YONDER_REQUIRES(mutex_);
  Result<Map::iterator> find(fabric::EndpointId owner, std::uint64_t ticket) YONDER_REQUIRES(mutex_);
  void remove(Map::iterator at) YONDER_REQUIRES(mutex_);
  void expire_locked() YONDER_REQUIRES(mutex_);

  const Clock& clock_;
  const StageLimits limits_;
  mutable sync::Mutex mutex_;
  Map entries_ YONDER_GUARDED_BY(mutex_);
  std::uint64_t bytes_ YONDER_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_ticket_ YONDER_GUARDED_BY(mutex_) = 1;
};

}  // namespace yonder::node::internal
