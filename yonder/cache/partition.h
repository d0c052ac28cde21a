#pragma once
// Partition: one share of the keys, all of it inside one range of memory.
//
// Items, hash index, LRU lists, CAS counter, expiry and statistics lie in the range,
// which may therefore be handed to another process that has it at the same address:
// adopt() there goes on where this one stopped. The memory limit is shared by all
// partitions of a process: a partition takes shares of a MemoryBudget as it grows, and
// throws out its least recently used items when there is none left.
//
// The LRU is memcached's: new items are hot; the hot list holds at most a fifth of the
// bytes and the warm one two fifths; what falls out of them goes to warm if it was read
// twice, else to cold; so does what was not read for a fifth (twice) of the time the coldest
// one was not; items are thrown out of cold. Reading an item twice marks it
// active, and reading it more often changes nothing, so that a hot key costs no writes.
//
// Times are seconds of the Unix era and come in as `now`. Expired and flushed items are
// found when somebody asks for them, when memory is wanted, and by crawl().
//
// Concurrency: one thread at a time: the caller holds the partition's lock.
// Lifetime: a view of the range, which outlives it; the budget outlives it as well.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "yonder/base/result.h"
#include "yonder/cache/item.h"
#include "yonder/cache/key.h"
#include "yonder/cache/memory_budget.h"

namespace yonder::segment {
class Heap;
}

namespace yonder::cache {

struct PartitionHeader;
struct PartitionCounters;
class Index;

enum class StoreMode : std::uint8_t { kSet, kAdd, kReplace, kAppend, kPrepend, kCas };

enum class StoreOutcome : std::uint8_t {
  kStored,
  kNotStored,  // add of a key that is there, replace of one that is not …
  kExists,     // The CAS number is another.
  kNotFound,   // cas of a key that is not there.
  kTooLarge,   // Longer than an item may be, as append can make it.
  kNoMemory,   // Nothing left to throw out, or not allowed to.
};

struct StoreRequest {
  StoreMode mode = StoreMode::kSet;
  std::uint32_t flags = 0;
  Seconds expires = 0;
  std::uint64_t cas = 0;      // 0: whatever it is.
  bool accept_stale = false;  // ms I: an older CAS number stores the value as stale.
  bool binary_key = false;
  std::string_view value;
};

struct StoreReply {
  StoreOutcome outcome;
  std::uint64_t cas = 0;  // Of the item now, if it was stored.
};

struct ArithmeticRequest {
  bool increment = true;
  std::uint64_t delta = 1;
  std::uint64_t cas = 0;  // 0: whatever it is.
};

enum class ArithmeticOutcome : std::uint8_t { kDone, kNotFound, kNotNumeric, kCasMismatch, kNoMemory };

struct ArithmeticReply {
  ArithmeticOutcome outcome;
  std::uint64_t value = 0;
  Item* item = nullptr;  // The item now, if it was done.
};

// What a partition may do for memory; the same for all of a process.
struct PartitionPolicy {
  std::size_t max_item_bytes = std::size_t{1} << 20;  // As memcached counts: see stored_bytes().
  bool evict = true;                                  // False (-M): refuse rather than throw out.
  unsigned hot_percent = 20;
  unsigned warm_percent = 40;
  // Of the age of the coldest item: what was not read for so long does not stay hot, or warm,
  // although there is room.
  double hot_max_factor = 0.2;
  double warm_max_factor = 2.0;
};

// The size memcached would give the item: what -I limits.
constexpr std::size_t stored_bytes(std::size_t key, std::uint32_t flags, std::size_t value) {
  constexpr std::size_t kHeaderCasAndEnds = 48 + 8 + 1 + 2;
  return kHeaderCasAndEnds + key + (flags != 0 ? 4 : 0) + value;
}

struct PartitionStats {
  std::uint64_t items = 0;
  std::uint64_t item_bytes = 0;  // Header, key and value.
  std::uint64_t heap_bytes = 0;  // Taken from the heap for items and index.
  std::uint64_t index_buckets = 0;
  bool index_grows = false;
  std::uint64_t segment_items[kSegments] = {};
  std::uint64_t segment_bytes[kSegments] = {};
  Seconds oldest_access[kSegments] = {};  // Of the item at the end of each list; 0: it is empty.
  Seconds last_evicted_age = 0;
};

class Partition {
 public:
  // The largest range that 32-bit references reach.
  static constexpr std::size_t kMaxRangeBytes = (std::size_t{1} << 32) * kRefUnit;

  // Makes an empty partition in a page-aligned range of zeros. Errors: kInvalidArgument
  // (range too small, too large or not aligned), kResourceExhausted (the budget has
  // nothing for an empty one).
  static Result<Partition> format(std::span<std::byte> range, std::uint32_t id, MemoryBudget& budget,
                                  const PartitionPolicy& policy);
  // Goes on with what is in the range. Takes what it holds from the budget, even beyond
  // its limit. Errors: kCorrupt (no partition of this layout, or not at its address).
  static Result<Partition> adopt(std::span<std::byte> range, MemoryBudget& budget,
                                 const PartitionPolicy& policy);

  Partition(Partition&& other) noexcept;
  Partition& operator=(Partition&& other) = delete;
  // Gives back its share of the budget; the contents stay in the range.
  ~Partition();

  std::uint32_t id() const;

  // The live item of the key, or null.
  Item* find(const Key& key, Seconds now);
  // A client has read the item.
  void bump(Item& item, Seconds now);

  StoreReply store(const Key& key, const StoreRequest& request, Seconds now);
  // Requires an item of this partition with this key.
  void erase(const Key& key, Item& item);
  ArithmeticReply add(const Key& key, const ArithmeticRequest& request, Seconds now);
  // A new CAS number for an item that was changed in place.
  void renew_cas(Item& item);

  // Makes what is stored before `at` disappear when `at` comes; at once if it is now.
  void flush(Seconds at, Seconds now);

  // Looks at `buckets` further buckets for items that have expired; returns how many were freed.
  std::size_t crawl(std::size_t buckets, Seconds now);
  // Moves a few items that have become too old for their lists.
  void age(Seconds now);
  // Throws out items until the heap holds `bytes` less, and gives what that leaves of its
  // share back to the budget; returns how much was given back.
  std::size_t shrink(std::size_t bytes, Seconds now);

  PartitionStats stats() const;
  const PartitionCounters& counters() const;
  void reset_counters();
  void set_policy(const PartitionPolicy& policy) { policy_ = policy; }

  // The live items from the newest of `segment` on, at most `limit`; visit must not change them.
  void visit(Segment segment, std::size_t limit, Seconds now,
             const std::function<void(const Item&)>& visit) const;
  // Aborts unless index, lists, counts and bytes agree. For tests; visits every item.
  void check_invariants() const;

 private:
  Partition(std::byte* base, segment::Heap* heap, MemoryBudget& budget, const PartitionPolicy& policy);

  Index index() const;
  bool is_gone(const Item& item, Seconds now) const;
  bool is_expired(const Item& item, Seconds now) const { return item.expires != 0 && item.expires <= now; }
  // Frees an item that is gone and that somebody asked for.
  void bury(const Key& key, Item& item, Seconds now);
  std::uint64_t next_cas();

  struct NewItem {
    std::size_t value_bytes;
    std::uint32_t flags;
    Seconds expires;
    std::uint8_t bits = 0;
  };
  // An item that is in no index and no list, without value; null if there is no memory.
  // `keep` is not thrown out to make room for it.
  Item* make_item(const Key& key, const NewItem& wanted, const Item* keep, Seconds now);
  void* allocate(std::size_t bytes, const Item* keep, Seconds now);
  bool make_room(std::size_t bytes, const Item* keep, Seconds now);
  void free_item(Item* item);

  std::optional<StoreReply> refuse(const Item* old, const StoreRequest& request) const;
  StoreReply put(const Key& key, Item* old, const StoreRequest& request, Seconds now);
  StoreReply extend(const Key& key, Item* old, const StoreRequest& request, Seconds now);
  bool fits_in_place(const Item& old, const StoreRequest& request) const;
  void overwrite(Item& old, const StoreRequest& request, Seconds now);
  void link(const Key& key, Item* old, Item* fresh, Seconds now);

  void push(Segment to, Item* item);
  void unlink_from_list(Item* item);
  // After `fresh` was put in.
  void balance(const Item& fresh, Seconds now);
  void drain(Segment from, std::uint64_t limit_bytes);
  void move_tail(Segment from);
  bool evict_one(const Item* keep, Seconds now);
  Item* coldest(const Item* keep);
  void drop(Item* item);

  std::byte* base_;
  PartitionHeader* header_;
  segment::Heap* heap_;
  MemoryBudget* budget_;
  PartitionPolicy policy_;
  std::size_t granted_ = 0;  // Of the budget; at least what the heap has in use.
};

}  // namespace yonder::cache
