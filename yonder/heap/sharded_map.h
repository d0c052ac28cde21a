#pragma once
// far::sharded_map: a far::unordered_map that many threads read and change.
//
//   far::sharded_map<far::string, Session> sessions;
//   sessions.set("alice", {…});
//   sessions.read("alice", [&](const Session& session) { use(session); });
//   sessions.write_or_insert("bob", [](Session& session) { ++session.visits; });
//
// The keys are dealt to kShards maps (unordered_map.h), each behind a lock. A lock is held while
// an entry is fetched: threads that want other entries of the shard wait for that, those of other
// shards do not. Entries are given to a function and not as guards, so that no guard outlives its
// lock.
//
// Concurrency: any thread. A function given to it runs under the shard's lock: it may not call
// the map again, and should be short.
// Lifetime: the heap outlives it.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/heap/unordered_map.h"
#include "yonder/sync/atomics.h"
#include "yonder/sync/mutex.h"

namespace yonder::heap {

template <typename K, typename V, std::size_t kShards = 64, typename Traits = KeyTraits<K>>
class sharded_map {
 public:
  using KeyView = typename Traits::View;

  // The sum over the shards, each at its own moment.
  std::size_t size() const {
    std::size_t sum = 0;
    for (const Shard& shard : shards_) {
      const sync::LockGuard lock(shard.mutex);
      sum += shard.map.size();
    }
    return sum;
  }

  // Calls f(const V&) or f(V&) with the entry's value; false: there is none.
  template <typename F>
  bool read(KeyView key, F&& f) const {
    const Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    const ReadGuard<V> value = shard.map.read(key);
    if (value) std::forward<F>(f)(*value);
    return static_cast<bool>(value);
  }
  template <typename F>
  bool write(KeyView key, F&& f) {
    Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    const WriteGuard<V> value = shard.map.write(key);
    if (value) std::forward<F>(f)(*value);
    return static_cast<bool>(value);
  }
  std::optional<V> get(KeyView key) const {
    const Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    return shard.map.get(key);
  }

  // As those of unordered_map, with its errors.
  Result<bool> try_insert(KeyView key, V value) {
    Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    return shard.map.try_insert(key, std::move(value));
  }
  Result<bool> try_set(KeyView key, V value) {
    Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    return shard.map.try_set(key, std::move(value));
  }
  bool set(KeyView key, V value) {
    Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    return shard.map.set(key, std::move(value));
  }
  // Calls f(V&) with the value of the key, which is V{} if there was none.
  template <typename F>
  void write_or_insert(KeyView key, F&& f) {
    Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    std::forward<F>(f)(*shard.map.write_or_insert(key));
  }
  bool erase(KeyView key) {
    Shard& shard = shard_of(key);
    const sync::LockGuard lock(shard.mutex);
    return shard.map.erase(key);
  }
  // Calls f(key, value) for all entries, a shard at a time.
  template <typename F>
  void for_each(F&& f) const {
    for (const Shard& shard : shards_) {
      const sync::LockGuard lock(shard.mutex);
      shard.map.for_each(f);
    }
  }

 private:
  // A line of its own for each, so that threads at work on two shards do not disturb each other.
  struct alignas(sync::kCacheLineBytes) Shard {
    mutable sync::Mutex mutex;
    unordered_map<K, V, Traits> map YONDER_GUARDED_BY(mutex);
  };

  // By bits of the hash that the maps do not use to find segments (upper) or slots (lowest).
  static std::size_t shard_number(KeyView key) {
    static_assert(std::has_single_bit(kShards) && kShards <= 4096);
    return (internal::mixed_hash(Traits::hash(key)) >> 8) & (kShards - 1);
  }
  Shard& shard_of(KeyView key) { return shards_[shard_number(key)]; }
  const Shard& shard_of(KeyView key) const { return shards_[shard_number(key)]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace yonder::heap
