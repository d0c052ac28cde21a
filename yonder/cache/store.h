#pragma once
// Store: all partitions of a server, found by key, with one memory limit.
//
//   store.visit(key, [&](Partition& partition) { … });   // under the partition's lock
//
// A server of a cluster owns some of the partitions. This is the seam behind which they
// come and go; everything above it sees one of three states per partition:
//
//   state      visit()                        attach          detach        expect
//   local      runs                           cannot be       -> elsewhere  cannot be
//   elsewhere  kElsewhere: ask owner_of()     -> local        cannot be     -> arriving
//   arriving   waits a moment, then           -> local        cannot be     stays
//              kElsewhere without an owner
//
// Concurrency: any thread. Each partition has a spin lock of its own, held for the time
// of a copy of a value at most; no two are ever held at once.
// Lifetime: owns the memory it made; ranges that came in by attach() belong to whoever
// brought them, until detach() returns them.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/cache/key.h"
#include "yonder/cache/memory_budget.h"
#include "yonder/cache/partition.h"
#include "yonder/os/mapping.h"
#include "yonder/segment/recovery.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::cache {

struct StoreOptions {
  std::size_t partitions = 128;  // A power of two.
  std::size_t memory_bytes = std::size_t{64} << 20;
  PartitionPolicy policy;
  // False: no partition is local until it is attached.
  bool own_all = true;
  // How long an operation waits for a partition that is arriving.
  Duration arrival_wait = std::chrono::milliseconds(500);
};

enum class Access : std::uint8_t {
  kDone,
  kElsewhere,
};

class Store {
 public:
  // Errors: kInvalidArgument (partitions, or less memory than empty ones need),
  // kOutOfMemory (address space).
  static Result<std::unique_ptr<Store>> create(const StoreOptions& options);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::size_t partitions() const { return slots_.size(); }
  // Where other servers and clients reach this one; empty outside a cluster. Set once, before
  // clients can ask.
  void set_self(std::string name);
  const std::string& self() const { return self_; }
  std::size_t partition_of(const Key& key) const { return cache::partition_of(key.hash, slots_.size()); }

  // Runs visit(Partition&) under the lock of the key's partition, if it is local.
  template <typename Visit>
  Access visit(const Key& key, Visit&& visit) {
    Slot& slot = *slots_[partition_of(key)];
    do {
      const SlotGuard guard(slot.lock);
      if (!slot.partition) [[unlikely]]
        continue;
      ++slot.operations;
      return run(slot, std::forward<Visit>(visit));
    } while (wait_for_arrival(slot));
    return Access::kElsewhere;
  }
  // The same by number, for reports and upkeep: does not wait for one that is arriving.
  template <typename Visit>
  Access visit_partition(std::size_t index, Visit&& visit) {
    Slot& slot = *slots_[index];
    const SlotGuard guard(slot.lock);
    if (!slot.partition) [[unlikely]]
      return Access::kElsewhere;
    return run(slot, std::forward<Visit>(visit));
  }

  // Like Partition::store; if the partition alone cannot make room, others give way.
  // Access::kElsewhere leaves `reply` alone.
  Access store(const Key& key, const StoreRequest& request, Seconds now, StoreReply& reply);

  // At most this much of a value is copied under a lock; see copy_long_value().
  static constexpr std::size_t kShortValue = std::size_t{32} << 10;
  // The whole value of an item with this CAS number, in pieces, so that the lock is free
  // in between. False if the item was changed meanwhile, or is gone.
  bool copy_long_value(const Key& key, std::uint64_t cas, std::span<char> out, Seconds now);

  // Of every partition that is local, or arrives in time.
  void flush(Seconds at, Seconds now);
  // A slice of what is to be looked after: lists, memory that is too much and, if `expired`,
  // items that have expired; to be called again and again. True if there was something to
  // do, so that the next call may come soon.
  bool crawl(Seconds now, bool expired = true);
  // The same for all items of a partition, in slices between which others get its lock.
  void crawl_all(std::size_t index, Seconds now);
  // Slices that were looked at.
  std::uint64_t crawls() const { return next_crawled_.load(std::memory_order_relaxed); }
  void set_policy(const PartitionPolicy& policy);
  PartitionPolicy policy() const;
  MemoryBudget& budget() { return budget_; }

  // How often clients have come to a partition since it is here: its load.
  std::uint64_t operations(std::size_t index) const;

  // The seam (see above). Errors of attach: kAlreadyExists (it is local), those of
  // Partition::adopt. Of detach: kNotFound (it is not local).
  bool is_local(std::size_t index) const;
  std::string owner_of(std::size_t index) const;
  void set_owner(std::size_t index, const std::string& owner);
  void expect(std::size_t index);
  Result<void> attach(std::size_t index, std::span<std::byte> range);
  Result<std::span<std::byte>> detach(std::size_t index, const std::string& new_owner);
  // attach() of a range whose pages are still arriving: if a page turns out to be lost, the
  // visit that touches it ends there (segment::attempt) as if the partition were elsewhere,
  // and so do all further ones, until it is detached. set_complete(): all pages are here.
  Result<void> attach_arriving(std::size_t index, std::span<std::byte> range);
  void set_complete(std::size_t index);

 private:
  // Takes the lock of a slot. Its holder is quick, except while pages of the partition are
  // still arriving: then it may wait for one, and who waits for the lock must leave it the core.
  class YONDER_SCOPED_CAPABILITY SlotGuard {
   public:
    explicit SlotGuard(sync::SpinLock& lock) YONDER_ACQUIRE(lock) : lock_(lock) {
      if (!lock_.try_lock()) [[unlikely]]
        lock_patiently(lock_);
    }
    ~SlotGuard() YONDER_RELEASE() { lock_.unlock(); }
    SlotGuard(const SlotGuard&) = delete;
    SlotGuard& operator=(const SlotGuard&) = delete;

   private:
    static void lock_patiently(sync::SpinLock& lock) YONDER_ACQUIRE(lock);
    sync::SpinLock& lock_;
  };

  struct alignas(64) Slot {
    mutable sync::SpinLock lock;
    bool arriving YONDER_GUARDED_BY(lock) = false;
    bool incomplete YONDER_GUARDED_BY(lock) = false;  // pages of it are still arriving
    bool lost YONDER_GUARDED_BY(lock) = false;        // … and some never will
    // Beside the lock, in a cache line that is ours at that moment anyway.
    std::uint64_t operations YONDER_GUARDED_BY(lock) = 0;
    std::optional<Partition> partition YONDER_GUARDED_BY(lock);
    std::span<std::byte> range YONDER_GUARDED_BY(lock);
    std::string owner YONDER_GUARDED_BY(lock);
    os::Mapping memory;  // Of a partition that was made here.
  };

  explicit Store(const StoreOptions& options);
  template <typename Visit>
  static Access run(Slot& slot, Visit&& visit) YONDER_REQUIRES(slot.lock) {
    if (slot.incomplete) [[unlikely]] {
      if (slot.lost) return Access::kElsewhere;
      // A page that is lost ends the visit, not the process.
      Partition& partition = *slot.partition;
      if (segment::attempt([&] { visit(partition); })) return Access::kDone;
      slot.lost = true;
      return Access::kElsewhere;
    }
    visit(*slot.partition);
    return Access::kDone;
  }
  static void put(Slot& slot, std::span<std::byte> range, Partition partition) YONDER_REQUIRES(slot.lock);
  Result<void> make_partition(std::size_t index);
  bool is_complete(std::size_t index) const;
  // False if nothing is arriving, or it did not arrive in time.
  bool wait_for_arrival(const Slot& slot) const;
  bool copy_piece(const Key& key, std::uint64_t cas, std::size_t offset, std::span<char> out, Seconds now);
  // Makes partitions give `bytes` back to the budget, one after the other.
  bool reclaim(std::size_t bytes, Seconds now);

  const StoreOptions options_;
  std::string self_;
  MemoryBudget budget_;
  std::vector<std::unique_ptr<Slot>> slots_;
  mutable sync::SpinLock policy_lock_;
  PartitionPolicy policy_ YONDER_GUARDED_BY(policy_lock_);
  std::atomic<std::size_t> next_victim_{0};
  std::atomic<std::size_t> next_crawled_{0};
};

}  // namespace yonder::cache
