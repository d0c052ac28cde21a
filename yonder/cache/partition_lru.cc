// The lists of a partition: who is kept and who is thrown out.
#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/cache/internal/index.h"
#include "yonder/cache/internal/layout.h"
#include "yonder/cache/partition.h"

namespace yonder::cache {
namespace {

ListState& list_of(PartitionHeader* header, Segment segment) {
  return header->lists[static_cast<std::size_t>(segment)];
}

// An item that is moved or dropped from a tail; a few per change keep the lists in shape,
// because every change adds one item.
constexpr int kMovesPerChange = 4;
// And of those that are too old, whenever somebody looks after the partition: few, because clients
// wait for its lock, and a thread that is preempted while it holds it makes them wait for long.
constexpr int kMovesPerAging = 8;

}  // namespace

void Partition::push(Segment to, Item* item) {
  const Range range(base_);
  ListState& list = list_of(header_, to);
  item->set_segment(to);
  item->newer = 0;
  item->older = list.head;
  const Ref self = range.ref(item);
  if (list.head != 0) range.item(list.head)->newer = self;
  list.head = self;
  if (list.tail == 0) list.tail = self;
  ++list.items;
  list.bytes += item->total_bytes();
}

void Partition::unlink_from_list(Item* item) {
  const Range range(base_);
  ListState& list = list_of(header_, item->segment());
  (item->newer != 0 ? range.item(item->newer)->older : list.head) = item->older;
  (item->older != 0 ? range.item(item->older)->newer : list.tail) = item->newer;
  --list.items;
  list.bytes -= item->total_bytes();
}

void Partition::balance(const Item& fresh, Seconds now) {
  const std::uint64_t bytes = header_->hot.item_bytes;
  drain(Segment::kHot, bytes * policy_.hot_percent / 100);
  drain(Segment::kWarm, bytes * policy_.warm_percent / 100);
  // An expired item at the cold end costs nobody anything: its memory is free for the next. One
  // that came with a time in the past is left to who asks for it, and is counted then.
  Item* tail = Range(base_).item(list_of(header_, Segment::kCold).tail);
  if (tail == nullptr || tail == &fresh || !is_gone(*tail, now)) return;
  ++header_->counters.reclaimed;
  drop(tail);
}

void Partition::drain(Segment from, std::uint64_t limit_bytes) {
  for (int i = 0; i < kMovesPerChange && list_of(header_, from).bytes > limit_bytes; ++i) {
    move_tail(from);
  }
}

void Partition::move_tail(Segment from) {
  Item* tail = Range(base_).item(list_of(header_, from).tail);
  const Segment to = tail->has(kActive) ? Segment::kWarm : Segment::kCold;
  PartitionCounters& counters = header_->counters;
  ++(to == Segment::kCold ? counters.moves_to_cold
     : from == to         ? counters.moves_within
                          : counters.moves_to_warm);
  unlink_from_list(tail);
  tail->clear(kActive);
  push(to, tail);
}

void Partition::age(Seconds now) {
  const Range range(base_);
  const Item* coldest = range.item(list_of(header_, Segment::kCold).tail);
  if (coldest == nullptr) return;
  const double age = now - std::min(coldest->accessed, now);
  for (const Segment from : {Segment::kHot, Segment::kWarm}) {
    const double limit = age * (from == Segment::kHot ? policy_.hot_max_factor : policy_.warm_max_factor);
    for (int i = 0; i < kMovesPerAging; ++i) {
      const Item* tail = range.item(list_of(header_, from).tail);
      if (tail == nullptr || now - std::min(tail->accessed, now) <= limit) break;
      move_tail(from);
    }
  }
}

Item* Partition::coldest(const Item* keep) {
  const Range range(base_);
  for (const Segment segment : {Segment::kCold, Segment::kWarm, Segment::kHot}) {
    Item* tail = range.item(list_of(header_, segment).tail);
    if (tail != nullptr && tail == keep) tail = range.item(tail->newer);
    if (tail != nullptr) return tail;
  }
  return nullptr;
}

bool Partition::evict_one(const Item* keep, Seconds now) {
  // An active item gets another round in warm. All could be active: the bound is the
  // work one change may do, a few microseconds.
  constexpr int kSecondChances = 64;
  Item* victim = coldest(keep);
  for (int i = 0; i < kSecondChances && victim != nullptr; ++i, victim = coldest(keep)) {
    if (!victim->has(kActive) || victim->segment() != Segment::kCold) break;
    unlink_from_list(victim);
    victim->clear(kActive);
    push(Segment::kWarm, victim);
    ++header_->counters.moves_to_warm;
  }
  if (victim == nullptr) return false;
  PartitionCounters& counters = header_->counters;
  if (is_gone(*victim, now)) {
    ++counters.reclaimed;
  } else {
    ++counters.evicted;
    if (!victim->has(kFetched)) ++counters.evicted_unfetched;
    if (victim->has(kActive)) ++counters.evicted_active;
    if (victim->expires != 0) ++counters.evicted_nonzero;
    header_->last_evicted_age = now - victim->accessed;
  }
  drop(victim);
  return true;
}

void Partition::drop(Item* item) { erase(Key(item->key()), *item); }

}  // namespace yonder::cache
