// The memory of a partition: how it is taken, given back and reported.
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/cache/internal/index.h"
#include "yonder/cache/internal/layout.h"
#include "yonder/cache/partition.h"
#include "yonder/segment/heap.h"

namespace yonder::cache {
namespace {

// How much one operation throws out of its own partition. Who needs more asks the other
// partitions too (Store::reclaim), rather than empty this one.
constexpr std::size_t kMaxEvictedBytes = std::size_t{64} << 10;

}  // namespace

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
  while (memory == nullptr && policy_.evict && evict_one(keep, now)) {
    ++header_->counters.direct_reclaims;
    memory = heap_->try_allocate(bytes);
  }
  if (memory == nullptr) ++header_->counters.out_of_memory;
  return memory;
}

bool Partition::make_room(std::size_t bytes, const Item* keep, Seconds now) {
  // The heap adds a word and rounds up; a little more does no harm.
  bytes += segment::Heap::kWordBytes + 2 * segment::Heap::kGranule;
  std::size_t evicted = 0;
  for (std::size_t used = heap_->used_bytes(); used + bytes > granted_; used = heap_->used_bytes()) {
    const std::size_t share = MemoryBudget::in_chunks(used + bytes - granted_);
    if (budget_->try_take(share)) {
      granted_ += share;
      continue;
    }
    if (!policy_.evict || evicted > kMaxEvictedBytes || !evict_one(keep, now)) return false;
    ++header_->counters.direct_reclaims;
    evicted += used - heap_->used_bytes();
  }
  return true;
}

void Partition::free_item(Item* item) {
  --header_->hot.items;
  header_->hot.item_bytes -= item->total_bytes();
  heap_->deallocate(item);
}

std::size_t Partition::shrink(std::size_t bytes, Seconds now) {
  const std::size_t used = heap_->used_bytes();
  while (policy_.evict && heap_->used_bytes() + bytes > used && evict_one(nullptr, now)) {
  }
  const std::size_t needed = MemoryBudget::in_chunks(heap_->used_bytes());
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
      ++header_->counters.crawler_checked;
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
  PartitionStats out{.items = header_->hot.items,
                     .item_bytes = header_->hot.item_bytes,
                     .heap_bytes = heap_->used_bytes(),
                     .index_buckets = index().buckets(),
                     .index_grows = header_->hot.index.old_buckets != 0,
                     .last_evicted_age = header_->last_evicted_age};
  for (std::size_t i = 0; i < kSegments; ++i) {
    out.segment_items[i] = header_->lists[i].items;
    out.segment_bytes[i] = header_->lists[i].bytes;
    const Item* oldest = Range(base_).item(header_->lists[i].tail);
    out.oldest_access[i] = oldest == nullptr ? 0 : oldest->accessed;
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
  YONDER_CHECK(items == header_->hot.items && bytes == header_->hot.item_bytes, "the index holds all items");
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
