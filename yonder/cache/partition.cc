#include "yonder/cache/partition.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/cache/internal/index.h"
#include "yonder/cache/internal/layout.h"
#include "yonder/cache/numbers.h"
#include "yonder/segment/heap.h"

namespace yonder::cache {
namespace {

PartitionHeader* header_of(std::byte* base) { return reinterpret_cast<PartitionHeader*>(base); }

std::span<std::byte> heap_range(std::span<std::byte> range) { return range.subspan(kHeaderPageBytes); }

// What a heap that is as empty as it gets asks of the budget: its own state and a first table.
constexpr std::size_t kFirstGrant = MemoryBudget::kChunk;

}  // namespace

Partition::Partition(std::byte* base, segment::Heap* heap, MemoryBudget& budget,
                     const PartitionPolicy& policy)
    : base_(base), header_(header_of(base)), heap_(heap), budget_(&budget), policy_(policy) {}

Partition::Partition(Partition&& other) noexcept
    : base_(other.base_),
      header_(other.header_),
      heap_(other.heap_),
      budget_(other.budget_),
      policy_(other.policy_),
      granted_(std::exchange(other.granted_, 0)) {}

Partition::~Partition() { budget_->give(granted_); }

Result<Partition> Partition::format(std::span<std::byte> range, std::uint32_t id, MemoryBudget& budget,
                                    const PartitionPolicy& policy) {
  const auto address = reinterpret_cast<std::uint64_t>(range.data());
  if (address % kHeaderPageBytes != 0 || range.size() > kMaxRangeBytes ||
      range.size() < kHeaderPageBytes + segment::Heap::kMinBytes) {
    return fail(ErrorCode::kInvalidArgument, "range of a partition", static_cast<std::int64_t>(range.size()));
  }
  YONDER_TRY(heap, segment::Heap::format(heap_range(range)));
  if (!budget.try_take(kFirstGrant)) return fail(ErrorCode::kResourceExhausted, "memory limit of the cache");
  *header_of(range.data()) = PartitionHeader{.magic = kPartitionMagic,
                                             .layout_version = kLayoutVersion,
                                             .id = id,
                                             .range_address = address,
                                             .range_bytes = range.size()};
  Partition made(range.data(), heap, budget, policy);
  made.granted_ = kFirstGrant;
  if (!made.index().create()) return fail(ErrorCode::kResourceExhausted, "range of a partition");
  return made;
}

Result<Partition> Partition::adopt(std::span<std::byte> range, MemoryBudget& budget,
                                   const PartitionPolicy& policy) {
  const PartitionHeader* header = header_of(range.data());
  if (range.size() < kHeaderPageBytes || header->magic != kPartitionMagic ||
      header->layout_version != kLayoutVersion || header->range_bytes != range.size() ||
      header->range_address != reinterpret_cast<std::uint64_t>(range.data())) {
    return fail(ErrorCode::kCorrupt, "adopt a partition");
  }
  YONDER_TRY(heap, segment::Heap::adopt(heap_range(range)));
  Partition adopted(range.data(), heap, budget, policy);
  adopted.granted_ = MemoryBudget::in_chunks(heap->used_bytes());
  budget.take(adopted.granted_);
  return adopted;
}

Index Partition::index() const { return Index(header_->hot.index, Range(base_), *heap_); }

std::uint32_t Partition::id() const { return header_->id; }

std::uint64_t Partition::next_cas() { return ++header_->hot.last_cas; }

void Partition::renew_cas(Item& item) { item.cas = next_cas(); }

// ---------------------------------------------------------------- looking up

bool Partition::is_gone(const Item& item, Seconds now) const {
  if (is_expired(item, now)) return true;
  if (item.cas < header_->hot.flushed_cas || item.accessed <= header_->hot.flushed_until) return true;
  return header_->hot.flush_due != 0 && header_->hot.flush_due <= now &&
         item.accessed <= header_->hot.flush_due;
}

Item* Partition::find(const Key& key, Seconds now) {
  Item* item = index().find(key);
  if (item == nullptr || !is_gone(*item, now)) [[likely]]
    return item;
  bury(key, *item, now);
  return nullptr;
}

void Partition::bury(const Key& key, Item& item, Seconds now) {
  PartitionCounters& counters = header_->counters;
  ++(is_expired(item, now) ? counters.found_expired : counters.found_flushed);
  if (!item.has(kFetched)) ++counters.expired_unfetched;
  erase(key, item);
}

void Partition::bump(Item& item, Seconds now) {
  if (item.has(kActive)) return;
  if (!item.has(kFetched)) {
    item.set(kFetched);
    return;
  }
  item.set(kActive);
  item.accessed = now;
}

void Partition::flush(Seconds at, Seconds now) {
  if (header_->hot.flush_due != 0 && header_->hot.flush_due <= now)
    header_->hot.flushed_until = header_->hot.flush_due;
  // One flush can be ordered at a time, and one at once cancels it, as with memcached.
  header_->hot.flush_due = at > now ? at - 1 : 0;
  if (at <= now) header_->hot.flushed_cas = next_cas();
}

// ---------------------------------------------------------------- storing

StoreReply Partition::store(const Key& key, const StoreRequest& request, Seconds now) {
  Item* old = index().find(key);
  if (old != nullptr && is_gone(*old, now)) [[unlikely]] {
    ++header_->counters.reclaimed;
    bury(key, *old, now);
    old = nullptr;
  }
  if (const std::optional<StoreReply> refused = refuse(old, request)) {
    // A client that wanted to add it has use for it.
    if (old != nullptr && request.mode == StoreMode::kAdd) old->accessed = now;
    return *refused;
  }
  const bool extends = request.mode == StoreMode::kAppend || request.mode == StoreMode::kPrepend;
  return extends ? extend(key, old, request, now) : put(key, old, request, now);
}

std::optional<StoreReply> Partition::refuse(const Item* old, const StoreRequest& request) const {
  if (old == nullptr) {
    if (request.mode == StoreMode::kSet || request.mode == StoreMode::kAdd) return std::nullopt;
    return StoreReply{request.mode == StoreMode::kCas ? StoreOutcome::kNotFound : StoreOutcome::kNotStored};
  }
  switch (request.mode) {
    case StoreMode::kAdd:
      return StoreReply{StoreOutcome::kNotStored};
    case StoreMode::kCas: {
      const bool stale = request.accept_stale && request.cas != 0 && request.cas < old->cas;
      if (request.cas == old->cas || stale) return std::nullopt;
      return StoreReply{StoreOutcome::kExists};
    }
    case StoreMode::kAppend:
    case StoreMode::kPrepend:
      if (request.cas == 0 || request.cas == old->cas) return std::nullopt;
      return StoreReply{StoreOutcome::kExists};
    case StoreMode::kSet:
    case StoreMode::kReplace:
      return std::nullopt;
  }
  return std::nullopt;
}

StoreReply Partition::put(const Key& key, Item* old, const StoreRequest& request, Seconds now) {
  NewItem wanted{.value_bytes = request.value.size(), .flags = request.flags, .expires = request.expires};
  if (request.binary_key) wanted.bits |= kBinaryKey;
  if (old != nullptr && request.mode == StoreMode::kCas && request.cas != old->cas) {
    // Older than what is there: the value is taken, but known as stale for as long as the old one had.
    wanted.expires = old->expires;
    wanted.bits |= static_cast<std::uint8_t>(kStale | (old->bits & kTokenSent));
  }
  if (old != nullptr && fits_in_place(*old, request)) {
    overwrite(*old, request, now);
    old->expires = wanted.expires;
    old->set(wanted.bits);
    return {StoreOutcome::kStored, old->cas};
  }
  Item* fresh = make_item(key, wanted, old, now);
  if (fresh == nullptr) return {StoreOutcome::kNoMemory};
  copy_text(fresh->value_data(), request.value);
  link(key, old, fresh, now);
  return {StoreOutcome::kStored, fresh->cas};
}

bool Partition::fits_in_place(const Item& old, const StoreRequest& request) const {
  return old.value_bytes == request.value.size() && old.flags() == request.flags;
}

void Partition::overwrite(Item& old, const StoreRequest& request, Seconds now) {
  unlink_from_list(&old);
  old.clear(kFetched | kActive | kStale | kTokenSent | kBinaryKey);
  copy_text(old.value_data(), request.value);
  old.accessed = now;
  old.cas = next_cas();
  push(Segment::kHot, &old);
  ++header_->counters.stored;
  balance(old, now);
}

StoreReply Partition::extend(const Key& key, Item* old, const StoreRequest& request, Seconds now) {
  const std::size_t value_bytes = old->value_bytes + request.value.size();
  if (stored_bytes(key.bytes.size(), old->flags(), value_bytes) > policy_.max_item_bytes) {
    return {StoreOutcome::kTooLarge};
  }
  const NewItem wanted{.value_bytes = value_bytes,
                       .flags = old->flags(),
                       .expires = old->expires,
                       .bits = static_cast<std::uint8_t>(old->bits & kBinaryKey)};
  Item* fresh = make_item(key, wanted, old, now);
  if (fresh == nullptr) return {StoreOutcome::kNoMemory};
  const bool append = request.mode == StoreMode::kAppend;
  const std::string_view first = append ? old->value() : request.value;
  const std::string_view second = append ? request.value : old->value();
  copy_text(fresh->value_data(), first);
  copy_text(fresh->value_data() + first.size(), second);
  link(key, old, fresh, now);
  return {StoreOutcome::kStored, fresh->cas};
}

void Partition::link(const Key& key, Item* old, Item* fresh, Seconds now) {
  fresh->accessed = now;
  fresh->cas = next_cas();
  ++header_->hot.items;
  header_->hot.item_bytes += fresh->total_bytes();
  ++header_->counters.stored;
  push(Segment::kHot, fresh);
  if (old == nullptr) {
    index().insert(key, fresh);
    if (index().is_crowded(header_->hot.items) && make_room(index().next_table_bytes(), fresh, now))
      index().grow();
  } else {
    index().replace(key, old, fresh);
    unlink_from_list(old);
    free_item(old);
  }
  balance(*fresh, now);
}

void Partition::erase(const Key& key, Item& item) {
  index().erase(key, &item);
  unlink_from_list(&item);
  free_item(&item);
}

ArithmeticReply Partition::add(const Key& key, const ArithmeticRequest& request, Seconds now) {
  Item* item = find(key, now);
  if (item == nullptr) return {ArithmeticOutcome::kNotFound};
  // Nothing this long is a number; memcached's bound is where it cuts items into chunks.
  constexpr std::size_t kLongestNumber = 512 * 1024;
  if (item->value_bytes == 0 || item->value_bytes > kLongestNumber) return {ArithmeticOutcome::kNotNumeric};
  if (request.cas != 0 && request.cas != item->cas) return {ArithmeticOutcome::kCasMismatch};
  const std::optional<std::uint64_t> before = parse_u64(item->value());
  if (!before) return {ArithmeticOutcome::kNotNumeric};
  const std::uint64_t after = request.increment         ? *before + request.delta
                              : *before > request.delta ? *before - request.delta
                                                        : 0;
  char text[20];
  const auto length = static_cast<std::size_t>(std::to_chars(text, text + sizeof text, after).ptr - text);
  if (length <= item->value_bytes) {
    std::memcpy(item->value_data(), text, length);
    std::memset(item->value_data() + length, ' ', item->value_bytes - length);
    renew_cas(*item);
    return {ArithmeticOutcome::kDone, after, item};
  }
  const NewItem wanted{.value_bytes = length,
                       .flags = item->flags(),
                       .expires = item->expires,
                       .bits = static_cast<std::uint8_t>(item->bits & kBinaryKey)};
  Item* fresh = make_item(key, wanted, item, now);
  if (fresh == nullptr) return {ArithmeticOutcome::kNoMemory};
  std::memcpy(fresh->value_data(), text, length);
  link(key, item, fresh, now);
  return {ArithmeticOutcome::kDone, after, fresh};
}

}  // namespace yonder::cache
