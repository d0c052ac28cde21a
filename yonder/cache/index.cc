#include "yonder/cache/internal/index.h"

#include <cstring>

#include "yonder/base/check.h"
#include "yonder/segment/heap.h"

namespace yonder::cache {
namespace {

// The key and a short value lie in the lines behind the header's: they come while that one
// is looked at, not after it.
void prefetch_rest(const Item* item) {
  constexpr std::size_t kLine = 64;
  const auto* bytes = reinterpret_cast<const char*>(item);
  __builtin_prefetch(bytes + kLine);
  __builtin_prefetch(bytes + 2 * kLine);
}

}  // namespace

bool Index::create() {
  state_ = IndexState{.buckets = make_table(kFirstBits), .old_buckets = 0, .bits = kFirstBits, .moved = 0};
  return state_.buckets != 0;
}

Ref Index::make_table(std::uint32_t bits) {
  const std::size_t bytes = sizeof(Ref) << bits;
  void* table = heap_.try_allocate(bytes);
  if (table == nullptr) return 0;
  std::memset(table, 0, bytes);
  return range_.ref(table);
}

Ref* Index::bucket_of(std::uint64_t bucket_bits) const {
  if (state_.old_buckets != 0) {
    const std::uint64_t old = bucket_bits & (buckets() / 2 - 1);
    if (old >= state_.moved) return &range_.at<Ref>(state_.old_buckets)[old];
  }
  return &range_.at<Ref>(state_.buckets)[bucket_bits & (buckets() - 1)];
}

Item* Index::find(const Key& key) const {
  for (Ref at = *bucket_of(key.bucket_bits()); at != 0;) {
    Item* item = range_.item(at);
    prefetch_rest(item);
    if (item->tag == key.tag() && item->key() == key.bytes) return item;
    at = item->next;
  }
  return nullptr;
}

Ref* Index::link_to(const Key& key, const Item* item) const {
  const Ref wanted = range_.ref(item);
  Ref* link = bucket_of(key.bucket_bits());
  while (*link != wanted) {
    YONDER_CHECK(*link != 0, "an item that is erased is in the index");
    link = &range_.item(*link)->next;
  }
  return link;
}

void Index::insert(const Key& key, Item* item) {
  move_some();
  Ref* bucket = bucket_of(key.bucket_bits());
  item->next = *bucket;
  *bucket = range_.ref(item);
}

void Index::erase(const Key& key, Item* item) {
  *link_to(key, item) = item->next;
  move_some();
}

void Index::replace(const Key& key, Item* old, Item* fresh) {
  Ref* link = link_to(key, old);
  fresh->next = old->next;
  *link = range_.ref(fresh);
}

bool Index::is_crowded(std::uint64_t items) const {
  // 31 bits: the most that a 32-bit number of moved buckets can count.
  return state_.old_buckets == 0 && items > buckets() / 4 * 3 && state_.bits < 31;
}

void Index::grow() {
  const Ref table = make_table(state_.bits + 1);
  if (table == 0) return;
  state_ = IndexState{.buckets = table, .old_buckets = state_.buckets, .bits = state_.bits + 1, .moved = 0};
}

void Index::move_some() {
  if (state_.old_buckets == 0) return;
  Ref* old = range_.at<Ref>(state_.old_buckets);
  const std::uint64_t end = buckets() / 2;
  for (std::uint32_t i = 0; i < kStep && state_.moved < end; ++i) move_bucket(old[state_.moved++]);
  if (state_.moved < end) return;
  heap_.deallocate(old);
  state_.old_buckets = 0;
}

void Index::move_bucket(Ref& bucket) {
  Ref* table = range_.at<Ref>(state_.buckets);
  while (bucket != 0) {
    Item* item = range_.item(bucket);
    const Ref self = bucket;
    bucket = item->next;
    Ref& to = table[Key(item->key()).bucket_bits() & (buckets() - 1)];
    item->next = to;
    to = self;
  }
}

}  // namespace yonder::cache
