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

// How much one operation throws out of its own partition. Who needs more asks the other
// partitions too (Store::reclaim), rather than empty this one.
constexpr std::size_t kMaxEvictedBytes = std::size_t{64} << 10;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

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
  adopted.granted_ = round_up(heap->used_bytes(), MemoryBudget::kChunk);
  budget.take(adopted.granted_);
  return adopted;
}

Index Partition::index() const { return Index(header_->index, Range(base_), *heap_); }

std::uint32_t Partition::id() const { return header_->id; }

std::uint64_t Partition::next_cas() { return ++header_->last_cas; }

void Partition::renew_cas(Item& item) { item.cas = next_cas(); }

void Partition::count_fetch() { ++header_->counters.fetches; }

// ---------------------------------------------------------------- looking up

bool Partition::is_gone(const Item& item, Seconds now) const {
  if (item.expires != 0 && item.expires <= now) return true;
  if (item.cas < header_->flushed_cas || item.accessed <= header_->flushed_until) return true;
  return header_->flush_due != 0 && header_->flush_due <= now && item.accessed <= header_->flush_due;
}

Item* Partition::find(const Key& key, Seconds now) {
  Item* item = index().find(key);
  if (item == nullptr || !is_gone(*item, now)) [[likely]]
    return item;
  if (!item->has(kFetched)) ++header_->counters.expired_unfetched;
  erase(key, *item);
  return nullptr;
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
  if (header_->flush_due != 0 && header_->flush_due <= now) header_->flushed_until = header_->flush_due;
  // One flush can be ordered at a time, and one at once cancels it, as with memcached.
  header_->flush_due = at > now ? at - 1 : 0;
  if (at <= now) header_->flushed_cas = next_cas();
}

// ---------------------------------------------------------------- storing

StoreReply Partition::store(const Key& key, const StoreRequest& request, Seconds now) {
  Item* old = find(key, now);
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
  std::memcpy(fresh->value_data(), request.value.data(), request.value.size());
  link(key, old, fresh, now);
  return {StoreOutcome::kStored, fresh->cas};
}

bool Partition::fits_in_place(const Item& old, const StoreRequest& request) const {
  return old.value_bytes == request.value.size() && old.flags() == request.flags;
}

void Partition::overwrite(Item& old, const StoreRequest& request, Seconds now) {
  unlink_from_list(&old);
  old.clear(kFetched | kActive | kStale | kTokenSent | kBinaryKey);
  std::memcpy(old.value_data(), request.value.data(), request.value.size());
  old.accessed = now;
  old.cas = next_cas();
  push(Segment::kHot, &old);
  ++header_->counters.stored;
  balance(now);
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
  std::memcpy(fresh->value_data(), first.data(), first.size());
  std::memcpy(fresh->value_data() + first.size(), second.data(), second.size());
  link(key, old, fresh, now);
  return {StoreOutcome::kStored, fresh->cas};
}

void Partition::link(const Key& key, Item* old, Item* fresh, Seconds now) {
  fresh->accessed = now;
  fresh->cas = next_cas();
  ++header_->items;
  header_->item_bytes += fresh->total_bytes();
  ++header_->counters.stored;
  push(Segment::kHot, fresh);
  if (old == nullptr) {
    index().insert(key, fresh);
    if (index().is_crowded(header_->items) && make_room(index().next_table_bytes(), fresh, now))
      index().grow();
  } else {
    index().replace(key, old, fresh);
    unlink_from_list(old);
    free_item(old);
  }
  balance(now);
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

// ---------------------------------------------------------------- memory

Item* Partition::make_item(const Key& key, const NewItem& wanted, const Item* keep, Seconds now) {
  const std::size_t bytes = Item::total_bytes(key.bytes.size(), wanted.flags, wanted.value_bytes);
  auto* item = static_cast<Item*>(allocate(bytes, keep, now));
  if (item == nullptr) return nullptr;
  item->next = item->older = item->newer = 0;
  item->expires = wanted.expires;
  item->value_bytes = static_cast<std::uint32_t>(wanted.value_bytes);
  item->cas = 0;
  item->key_bytes = static_cast<std::uint8_t>(key.bytes.size());
  item->bits = static_cast<std::uint8_t>(wanted.bits | (wanted.flags != 0 ? kHasFlags : 0));
  item->tag = key.tag();
  char* at = item->tail();
  if (wanted.flags != 0) {
    std::memcpy(at, &wanted.flags, sizeof wanted.flags);
    at += sizeof wanted.flags;
  }
  std::memcpy(at, key.bytes.data(), key.bytes.size());
  return item;
}

void* Partition::allocate(std::size_t bytes, const Item* keep, Seconds now) {
  if (!make_room(bytes, keep, now)) {
    ++header_->counters.out_of_memory;
    return nullptr;
  }
  void* memory = heap_->try_allocate(bytes);
  // The range may be cut into pieces that are too small, although the budget allows more.
  while (memory == nullptr && policy_.evict && evict_one(keep, now)) memory = heap_->try_allocate(bytes);
  if (memory == nullptr) ++header_->counters.out_of_memory;
  return memory;
}

bool Partition::make_room(std::size_t bytes, const Item* keep, Seconds now) {
  // The heap adds a word and rounds up; a little more does no harm.
  bytes += segment::Heap::kWordBytes + 2 * segment::Heap::kGranule;
  std::size_t evicted = 0;
  for (std::size_t used = heap_->used_bytes(); used + bytes > granted_; used = heap_->used_bytes()) {
    const std::size_t share = round_up(used + bytes - granted_, MemoryBudget::kChunk);
    if (budget_->try_take(share)) {
      granted_ += share;
      continue;
    }
    if (!policy_.evict || evicted > kMaxEvictedBytes || !evict_one(keep, now)) return false;
    evicted += used - heap_->used_bytes();
  }
  return true;
}

void Partition::free_item(Item* item) {
  --header_->items;
  header_->item_bytes -= item->total_bytes();
  heap_->deallocate(item);
}

std::size_t Partition::shrink(std::size_t bytes, Seconds now) {
  const std::size_t used = heap_->used_bytes();
  while (policy_.evict && heap_->used_bytes() + bytes > used && evict_one(nullptr, now)) {
  }
  const std::size_t needed = round_up(heap_->used_bytes(), MemoryBudget::kChunk);
  if (needed >= granted_) return 0;
  const std::size_t given = granted_ - needed;
  granted_ = needed;
  budget_->give(given);
  return given;
}

std::size_t Partition::crawl(std::size_t buckets, Seconds now) {
  std::size_t freed = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    Index table = index();
    const std::uint64_t bucket = header_->crawl_bucket++ & (table.buckets() - 1);
    table.visit_bucket(bucket, [&](Item* item) {
      if (!is_gone(*item, now)) return;
      if (!item->has(kFetched)) ++header_->counters.expired_unfetched;
      ++header_->counters.crawled;
      ++freed;
      drop(item);
    });
  }
  return freed;
}

// ---------------------------------------------------------------- reports

PartitionStats Partition::stats() const {
  PartitionStats out{.items = header_->items,
                     .item_bytes = header_->item_bytes,
                     .heap_bytes = heap_->used_bytes(),
                     .index_buckets = index().buckets(),
                     .last_evicted_age = header_->last_evicted_age};
  for (std::size_t i = 0; i < kSegments; ++i) {
    out.segment_items[i] = header_->lists[i].items;
    out.segment_bytes[i] = header_->lists[i].bytes;
  }
  return out;
}

const PartitionCounters& Partition::counters() const { return header_->counters; }

void Partition::reset_counters() { header_->counters = {}; }

void Partition::visit(Segment segment, std::size_t limit, Seconds now,
                      const std::function<void(const Item&)>& visit) const {
  const Range range(base_);
  const Item* item = range.item(header_->lists[static_cast<std::size_t>(segment)].head);
  for (std::size_t seen = 0; item != nullptr && seen < limit; item = range.item(item->older)) {
    if (is_gone(*item, now)) continue;
    visit(*item);
    ++seen;
  }
}

void Partition::check_invariants() const {
  YONDER_CHECK(heap_->check_invariants(), "the heap of a partition is whole");
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  index().visit_all([&](Item* item) {
    ++items;
    bytes += item->total_bytes();
    YONDER_CHECK(index().find(Key(item->key())) == item, "each item is found by its key");
  });
  YONDER_CHECK(items == header_->items && bytes == header_->item_bytes, "the index holds all items");
  const Range range(base_);
  std::uint64_t listed = 0;
  std::uint64_t listed_bytes = 0;
  for (std::size_t i = 0; i < kSegments; ++i) {
    const ListState& list = header_->lists[i];
    Ref newer = 0;
    for (Ref at = list.head; at != 0; newer = at, at = range.item(at)->older) {
      const Item* item = range.item(at);
      YONDER_CHECK(item->newer == newer && item->segment() == static_cast<Segment>(i), "lists are linked");
      ++listed;
      listed_bytes += item->total_bytes();
    }
    YONDER_CHECK(list.tail == newer, "a list ends at its tail");
  }
  YONDER_CHECK(listed == items && listed_bytes == bytes, "each item is in one list");
  YONDER_CHECK(heap_->used_bytes() <= granted_, "no more memory is used than was granted");
}

}  // namespace yonder::cache
