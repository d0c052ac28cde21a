#pragma once
// DisplacedIndex: where objects are that compaction put into another slot.
//
// The owner-kept mapping of ids to slots of CoRM (3.1.4, 3.2.1), for the correction
// strategy kIndex. An object of an open block sits in the slot its id says, so only
// displaced objects are entered: by the compactor, before the block's entry is
// switched; removed when the object is freed or gets a new home.
//
// The index may know less than the truth while a block is being moved; who does
// not find an object here looks at the headers.
//
// Concurrency: any thread; sharded mutexes. Lifetime: the core's.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "yonder/node/header_word.h"
#include "yonder/node/object_ptr.h"
#include "yonder/sync/mutex.h"

namespace yonder::node::internal {

class DisplacedIndex {
 public:
  void put(BlockId home, ObjectId id, std::uint32_t slot) {
    Shard& shard = shard_of(home);
    sync::LockGuard lock(shard.mutex);
    shard.slots[key(home, id)] = slot;
  }
  void erase(BlockId home, ObjectId id) {
    Shard& shard = shard_of(home);
    sync::LockGuard lock(shard.mutex);
    shard.slots.erase(key(home, id));
  }
  std::optional<std::uint32_t> find(BlockId home, ObjectId id) const {
    const Shard& shard = shard_of(home);
    sync::LockGuard lock(shard.mutex);
    const auto found = shard.slots.find(key(home, id));
    return found == shard.slots.end() ? std::nullopt : std::optional(found->second);
  }
  void visit(const std::function<void(BlockId home, ObjectId id, std::uint32_t slot)>& each) const {
    for (const Shard& shard : shards_) {
      sync::LockGuard lock(shard.mutex);
      for (const auto& [identity, slot] : shard.slots) {
        each(BlockId(static_cast<std::uint32_t>(identity >> kObjectIdBits)),
             ObjectId(static_cast<std::uint16_t>(identity)), slot);
      }
    }
  }
  std::size_t size() const {
    std::size_t count = 0;
    for (const Shard& shard : shards_) {
      sync::LockGuard lock(shard.mutex);
      count += shard.slots.size();
    }
    return count;
  }

 private:
  static constexpr std::size_t kShards = 16;
  struct Shard {
    mutable sync::Mutex mutex;
    std::unordered_map<std::uint64_t, std::uint32_t> slots YONDER_GUARDED_BY(mutex);
  };
  static std::uint64_t key(BlockId home, ObjectId id) {
    return std::uint64_t{home.value()} << kObjectIdBits | id.value();
  }
  Shard& shard_of(BlockId home) { return shards_[home.value() % kShards]; }
  const Shard& shard_of(BlockId home) const { return shards_[home.value() % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace yonder::node::internal
