#pragma once
// Index: the hash table of a partition, from key to item, growing a little at a time.
//
// Buckets are 4-byte references, chains go through Item::next, and the load is at most
// 0.75 items per bucket before the table doubles: 5.3 to 10.7 bytes per item. A higher load
// would save 3 bytes and cost a cache miss for every fourth lookup. Doubling
// happens in steps, so that no operation pays for all: each insert and erase empties
// kStep buckets of the old table. As the new table has twice the buckets, the old one is
// empty long before the next doubling.
//
// Concurrency: under the lock of the partition. Lifetime: a view of IndexState and the
// heap, made for each use.

#include <cstdint>

#include "yonder/cache/internal/layout.h"
#include "yonder/cache/key.h"

namespace yonder::segment {
class Heap;
}

namespace yonder::cache {

class Index {
 public:
  Index(IndexState& state, Range range, segment::Heap& heap) : state_(state), range_(range), heap_(heap) {}

  static constexpr std::uint32_t kFirstBits = 6;

  // Makes the first, empty table. False if the heap has no memory for it.
  bool create();

  Item* find(const Key& key) const;
  // Requires that the key is not in the table.
  void insert(const Key& key, Item* item);
  // Requires that the item is in the table.
  void erase(const Key& key, Item* item);
  // Puts `fresh` in the place of `old`, which has the same key.
  void replace(const Key& key, Item* old, Item* fresh);

  // Whether `items` are too many for the table, and it is not growing already.
  bool is_crowded(std::uint64_t items) const;
  // Doubles the table; without memory it stays as it is, with longer chains.
  void grow();
  std::uint64_t next_table_bytes() const { return sizeof(Ref) << (state_.bits + 1); }

  std::uint64_t buckets() const { return std::uint64_t{1} << state_.bits; }
  // Calls visit(Item*) for each item of bucket `number` of the current table; visit may
  // erase the item it is given. Only what has been moved there is seen.
  template <typename Visit>
  void visit_bucket(std::uint64_t number, Visit visit) {
    for (Ref at = range_.at<Ref>(state_.buckets)[number]; at != 0;) {
      Item* item = range_.item(at);
      at = item->next;
      visit(item);
    }
  }
  // All items, in no order.
  template <typename Visit>
  void visit_all(Visit visit) {
    for (std::uint64_t i = 0; i < buckets(); ++i) visit_bucket(i, visit);
    if (state_.old_buckets == 0) return;
    for (std::uint64_t i = state_.moved; i < buckets() / 2; ++i) {
      for (Ref at = range_.at<Ref>(state_.old_buckets)[i]; at != 0;) {
        Item* item = range_.item(at);
        at = item->next;
        visit(item);
      }
    }
  }

 private:
  static constexpr std::uint32_t kStep = 8;

  Ref* bucket_of(std::uint64_t bucket_bits) const;
  Ref* link_to(const Key& key, const Item* item) const;
  Ref make_table(std::uint32_t bits);
  void move_some();
  void move_bucket(Ref& bucket);

  IndexState& state_;
  Range range_;
  segment::Heap& heap_;
};

}  // namespace yonder::cache
