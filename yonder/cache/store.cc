#include "yonder/cache/store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include "yonder/os/steady_clock.h"

namespace yonder::cache {
namespace {

// Beyond the limit a range has room for the pieces in which free memory lies.
constexpr std::size_t kRangeSlack = std::size_t{64} << 20;

// Looked at under one lock: about 25 µs, most of it cache misses.
constexpr std::size_t kBuckets = 128;

std::size_t range_bytes(std::size_t memory_bytes) {
  return std::min(Partition::kMaxRangeBytes, os::round_up(memory_bytes + kRangeSlack, os::kHugePageBytes));
}

}  // namespace

Store::Store(const StoreOptions& options)
    : options_(options), budget_(options.memory_bytes), policy_(options.policy) {}

Result<std::unique_ptr<Store>> Store::create(const StoreOptions& options) {
  if (!std::has_single_bit(options.partitions)) {
    return fail(ErrorCode::kInvalidArgument, "the number of partitions is a power of two",
                static_cast<std::int64_t>(options.partitions));
  }
  std::unique_ptr<Store> store(new Store(options));
  for (std::size_t i = 0; i < options.partitions; ++i) {
    store->slots_.push_back(std::make_unique<Slot>());
    if (options.own_all) YONDER_TRY_VOID(store->make_partition(i));
  }
  return store;
}

Result<void> Store::make_partition(std::size_t index) {
  Slot& slot = *slots_[index];
  YONDER_TRY(memory, os::Mapping::anonymous({.bytes = range_bytes(options_.memory_bytes)}));
  YONDER_TRY(partition,
             Partition::format(memory.bytes(), static_cast<std::uint32_t>(index), budget_, policy()));
  const SlotGuard guard(slot.lock);
  slot.range = memory.bytes();
  slot.memory = std::move(memory);
  slot.partition.emplace(std::move(partition));
  return {};
}

bool Store::wait_for_arrival(const Slot& slot) const {
  const Instant give_up = os::SteadyClock::read() + options_.arrival_wait;
  for (;;) {
    {
      const SlotGuard guard(slot.lock);
      if (slot.partition) return true;
      if (!slot.arriving) return false;
    }
    if (os::SteadyClock::read() >= give_up) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Access Store::store(const Key& key, const StoreRequest& request, Seconds now, StoreReply& reply) {
  // What others gave up may be taken by a third before we are back: try a few times.
  constexpr int kTries = 4;
  const std::size_t bytes = Item::total_bytes(key.bytes.size(), request.flags, request.value.size());
  for (int i = 0; i < kTries; ++i) {
    const Access access =
        visit(key, [&](Partition& partition) { reply = partition.store(key, request, now); });
    if (access != Access::kDone || reply.outcome != StoreOutcome::kNoMemory) return access;
    if (!policy().evict || !reclaim(bytes + MemoryBudget::kChunk, now)) return access;
  }
  return Access::kDone;
}

bool Store::reclaim(std::size_t bytes, Seconds now) {
  // Each gives a little, so that none is emptied for one large item.
  const std::size_t share = std::max(bytes / 8, MemoryBudget::kChunk);
  std::size_t got = 0;
  for (std::size_t i = 0; i < 2 * slots_.size() && got < bytes; ++i) {
    // relaxed: who is asked next need not be exact.
    const std::size_t victim = next_victim_.fetch_add(1, std::memory_order_relaxed) % slots_.size();
    visit_partition(victim, [&](Partition& partition) { got += partition.shrink(share, now); });
  }
  return got > 0;
}

bool Store::copy_long_value(const Key& key, std::uint64_t cas, std::span<char> out, Seconds now) {
  for (std::size_t offset = 0; offset < out.size(); offset += kShortValue) {
    const std::span<char> piece = out.subspan(offset, std::min(kShortValue, out.size() - offset));
    if (!copy_piece(key, cas, offset, piece, now)) return false;
  }
  return true;
}

bool Store::copy_piece(const Key& key, std::uint64_t cas, std::size_t offset, std::span<char> out,
                       Seconds now) {
  bool same = false;
  visit(key, [&](Partition& partition) {
    // Every change of a value gives it another CAS number, so equal numbers mean equal bytes.
    const Item* item = partition.find(key, now);
    same = item != nullptr && item->cas == cas && item->value_bytes >= offset + out.size();
    if (same) std::memcpy(out.data(), item->value().data() + offset, out.size());
  });
  return same;
}

void Store::flush(Seconds at, Seconds now) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    do {
      if (visit_partition(i, [&](Partition& partition) { partition.flush(at, now); }) == Access::kDone) break;
    } while (wait_for_arrival(*slots_[i]));
  }
}

bool Store::crawl(Seconds now, bool expired) {
  // Of the memory that is too much, as much as others can do without at once.
  constexpr std::size_t kReclaimed = std::size_t{1} << 20;
  const std::size_t index = next_crawled_.fetch_add(1, std::memory_order_relaxed) % slots_.size();
  std::size_t freed = 0;
  // Not one that is arriving: to look at it would pull pages that clients wait for.
  if (is_complete(index)) {
    visit_partition(index, [&](Partition& partition) {
      partition.age(now);
      if (expired) freed = partition.crawl(kBuckets, now);
      // What is free here may be wanted elsewhere.
      if (freed > 0) partition.shrink(0, now);
    });
  }
  const std::size_t excess = budget_.overdrawn();
  return (excess > 0 && reclaim(std::min(excess, kReclaimed), now)) || freed > 0;
}

void Store::crawl_all(std::size_t index, Seconds now) {
  std::size_t left = 1;
  for (std::size_t done = 0; done < left; done += kBuckets) {
    if (!is_complete(index)) return;
    const Access access = visit_partition(index, [&](Partition& partition) {
      left = partition.stats().index_buckets;
      if (partition.crawl(kBuckets, now) > 0) partition.shrink(0, now);
    });
    if (access != Access::kDone) return;
  }
}

void Store::set_policy(const PartitionPolicy& policy) {
  {
    // Before the partitions: one that comes meanwhile has it from the start, or gets it below.
    const SlotGuard guard(policy_lock_);
    policy_ = policy;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    visit_partition(i, [&](Partition& partition) { partition.set_policy(policy); });
  }
}

PartitionPolicy Store::policy() const {
  const SlotGuard guard(policy_lock_);
  return policy_;
}

std::uint64_t Store::operations(std::size_t index) const {
  const Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  return slot.operations;
}

void Store::SlotGuard::lock_patiently(sync::SpinLock& lock) {
  constexpr int kPauses = 128;  // a few microseconds: longer than a command takes
  constexpr int kYields = 16;
  for (int round = 0; !lock.try_lock(); ++round) {
    if (round < kPauses) {
      sync::cpu_pause();
    } else if (round < kPauses + kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

// ---------------------------------------------------------------- the seam

void Store::set_self(std::string name) {
  self_ = std::move(name);
  // Who takes a slot's lock from now on sees it.
  for (const std::unique_ptr<Slot>& slot : slots_) const SlotGuard guard(slot->lock);
}

bool Store::is_local(std::size_t index) const {
  const Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  return slot.partition.has_value();
}

bool Store::is_complete(std::size_t index) const {
  const Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  return !slot.incomplete;
}

std::string Store::owner_of(std::size_t index) const {
  const Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  return slot.owner;
}

void Store::set_owner(std::size_t index, const std::string& owner) {
  Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  slot.owner = owner;
}

void Store::expect(std::size_t index) {
  Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  slot.arriving = !slot.partition.has_value();
}

void Store::put(Slot& slot, std::span<std::byte> range, Partition partition) {
  slot.partition.emplace(std::move(partition));
  slot.operations = 0;
  slot.range = range;
  slot.arriving = false;
  slot.lost = false;
  slot.owner.clear();
}

Result<void> Store::attach(std::size_t index, std::span<std::byte> range) {
  Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  if (slot.partition) return fail(ErrorCode::kAlreadyExists, "attach a partition", static_cast<int>(index));
  YONDER_TRY(partition, Partition::adopt(range, budget_, policy()));
  put(slot, range, std::move(partition));
  return {};
}

Result<void> Store::attach_arriving(std::size_t index, std::span<std::byte> range) {
  Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  if (slot.partition) return fail(ErrorCode::kAlreadyExists, "attach a partition", static_cast<int>(index));
  std::optional<Result<Partition>> adopted;
  YONDER_TRY_VOID(segment::attempt([&] { adopted.emplace(Partition::adopt(range, budget_, policy())); }));
  if (!*adopted) return std::unexpected(adopted->error());
  put(slot, range, std::move(**adopted));
  slot.incomplete = true;
  return {};
}

void Store::set_complete(std::size_t index) {
  Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  slot.incomplete = false;
}

Result<std::span<std::byte>> Store::detach(std::size_t index, const std::string& new_owner) {
  Slot& slot = *slots_[index];
  const SlotGuard guard(slot.lock);
  if (!slot.partition) return fail(ErrorCode::kNotFound, "detach a partition", static_cast<int>(index));
  slot.partition.reset();
  slot.incomplete = false;
  slot.owner = new_owner;
  return slot.range;
}

}  // namespace yonder::cache
