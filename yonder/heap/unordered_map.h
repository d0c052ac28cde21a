#pragma once
// far::unordered_map: keys and values in far memory, found by hash.
//
//   far::unordered_map<std::uint64_t, Order> orders;
//   orders.insert(7, {…});
//   if (auto order = orders.read(7)) use(order->price);     // a guard, empty if there is none
//   orders.write(7)->price = 3;                             // a guard, for writing
//   orders.erase(7);
//   far::unordered_map<far::string, std::uint64_t> words;   // looked up by std::string_view
//   ++*words.write_or_insert("yonder");
//
// Each entry is a far object of its own, so that in hybrid and object mode hot entries come in
// without their neighbours. Where it is, is said by a segment, which is a far object as well
// (internal/hash_segment.h), and the segment by a table in local memory:
//
//   upper bits of the hash → index (4 bytes each) → segments (8 bytes each) → segment → node
//
// Local memory is about half a byte per entry (not the 8 of a table of buckets, whatever the size of
// entries); far memory 19 bytes per entry besides the entry itself, which is rounded up to 16
// bytes. A look-up touches one segment, which serves some forty entries and so tends to be local,
// and one node: the wrong one in less than one case of a million.
//
// It grows by splitting one segment at a time: at most 56 entries change places, none of them is
// brought in, and the index doubles at times (4 bytes for about thirty entries are copied). So no
// insertion takes long. Erasing leaves segments as they are; clear() frees all.
//
// Errors: try_… return kOutOfMemory (far memory is full, or all local memory is held), the node's
// errors and those of keeping the key, and the map is as before; the others do what
// HeapOptions::on_lost says.
//
// Concurrency: const calls by many threads, also write() of different entries; insertion and
// erasing by one thread alone. See sharded_map.h for one that many threads change.
// Lifetime: the heap outlives it. A guard holds the page of its entry and ends before the entry
// does; inserting other entries while one is held is fine. A call holds at most three pages
// (segment, node, text of the key).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/heap/guard.h"
#include "yonder/heap/internal/block_table.h"
#include "yonder/heap/internal/hash_segment.h"
#include "yonder/heap/key_traits.h"
#include "yonder/heap/relocatable.h"

namespace yonder::heap {

template <typename K, typename V, typename Traits = KeyTraits<K>>
class unordered_map {
  using Access = internal::Access;
  using Block = internal::Block;
  using PageHold = internal::PageHold;
  using Segment = internal::HashSegment;

 public:
  using key_type = K;
  using mapped_type = V;
  using KeyView = typename Traits::View;

  unordered_map() = default;
  unordered_map(unordered_map&& other) noexcept
      : segments_(std::move(other.segments_)),
        index_(std::move(other.index_)),
        depth_(std::exchange(other.depth_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  unordered_map& operator=(unordered_map&& other) noexcept {
    if (this != &other) {
      clear();
      segments_ = std::move(other.segments_);
      index_ = std::move(other.index_);
      depth_ = std::exchange(other.depth_, 0);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~unordered_map() { clear(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Local memory besides the map itself.
  std::size_t local_bytes() const {
    return segments_.local_bytes() + (index_ ? sizeof(std::uint32_t) << depth_ : 0);
  }

  // ---- one entry: a guard on its value, empty if there is no such entry.
  ReadGuard<V> read(KeyView key) const {
    Place place;
    const Node* const node = find<Access::kRead>(key, hash_of(key), place);
    if (node == nullptr) return {};
    return {std::move(place.node_hold), &node->value};
  }
  WriteGuard<V> write(KeyView key) {
    Place place;
    Node* const node = find<Access::kWrite>(key, hash_of(key), place);
    if (node == nullptr) return {};
    return {std::move(place.node_hold), &node->value};
  }
  bool contains(KeyView key) const { return static_cast<bool>(read(key)); }
  std::optional<V> get(KeyView key) const {
    const ReadGuard<V> value = read(key);
    return value ? std::optional<V>(*value) : std::nullopt;
  }

  // ---- adding. True: it is new; an entry that is there stays as it is.
  Result<bool> try_insert(KeyView key, V value) {
    YONDER_TRY(added, find_or_add(key, std::move(value)));
    return added.is_new;
  }
  bool insert(KeyView key, V value) { return expect(try_insert(key, std::move(value))); }
  // The value becomes this one, whether there was an entry or not; true: there was none.
  Result<bool> try_set(KeyView key, V value) {
    if (const WriteGuard<V> there = write(key)) {
      *there = std::move(value);
      return false;
    }
    return try_insert(key, std::move(value));
  }
  bool set(KeyView key, V value) { return expect(try_set(key, std::move(value))); }
  // The value of the key, which is V{} if there was none.
  Result<WriteGuard<V>> try_write_or_insert(KeyView key) {
    YONDER_TRY(added, find_or_add(key));
    return std::move(added.value);
  }
  WriteGuard<V> write_or_insert(KeyView key) { return expect(try_write_or_insert(key)); }

  // True if there was such an entry.
  bool erase(KeyView key);
  void clear();

  // Calls f(key, value) for all entries, in no order. f may not change the map.
  template <typename F>
  void for_each(F&& f) const {
    walk<Access::kRead>([&](const Node& node) { f(node.key, node.value); });
  }
  template <typename F>
  void for_each(F&& f) {
    walk<Access::kWrite>([&](Node& node) { f(std::as_const(node.key), node.value); });
  }

 private:
  struct Node {
    K key;
    V value;
  };
  // Where an entry is, held.
  struct Place {
    PageHold segment_hold;
    Segment* segment = nullptr;
    std::uint32_t slot = 0;
    PageHold node_hold;
  };
  struct Added {
    bool is_new;
    WriteGuard<V> value;
  };

  // More would make the index, not the entries, what takes the memory; and the hashes kept in
  // segments have 32 bits.
  static constexpr std::uint32_t kMaxDepth = 28;
  // With good hashes the index has two to four places per segment. One of many more comes of
  // hashes that are equal, and gains nothing.
  static constexpr std::size_t kMaxPlacesPerSegment = 16;
  // Nodes asked for ahead of a walk.
  static constexpr std::uint32_t kAhead = 4;

  template <typename T>
  static T expect(Result<T> result) {
    if (!result) [[unlikely]]
      internal::lost(result.error());
    return std::move(*result);
  }
  static std::uint64_t hash_of(KeyView key) { return internal::mixed_hash(Traits::hash(key)); }
  static std::uint64_t prefix(std::uint64_t hash, std::uint32_t depth) {
    return depth == 0 ? 0 : hash >> (64 - depth);
  }
  template <Access kAccess>
  static Segment* enter_segment(const Block& block, PageHold& hold) {
    return reinterpret_cast<Segment*>(block.template enter<kAccess>(hold));
  }
  template <Access kAccess>
  static Node* enter_node(const Block& block, PageHold& hold) {
    return reinterpret_cast<Node*>(block.template enter<kAccess>(hold));
  }
  static Result<typename Block::Fresh> new_segment() {
    YONDER_TRY(fresh, Block::make(sizeof(Segment)));
    std::construct_at(reinterpret_cast<Segment*>(fresh.memory));
    return fresh;
  }

  template <Access kAccess, Access kSegmentAccess = Access::kRead>
  Node* find(KeyView key, std::uint64_t hash, Place& place) const;
  template <typename... Args>
  Result<Added> find_or_add(KeyView key, Args&&... args);
  Result<void> place_node(std::uint64_t hash, Block& node);
  bool may_split(const Segment& segment) const;
  Result<void> split(std::uint64_t hash);
  static Result<void> add_overflow(Segment& segment);
  static void destroy_segment(const Block& block);
  template <Access kAccess, typename F>
  void walk(F&& f) const;

  internal::BlockTable segments_;
  std::unique_ptr<std::uint32_t[]> index_;  // 2^depth_ numbers of segments; null: no segment yet.
  std::uint32_t depth_ = 0;
  std::size_t size_ = 0;
};

template <typename K, typename V, typename Traits>
struct is_relocatable<unordered_map<K, V, Traits>> : std::true_type {};

template <typename K, typename V, typename Traits>
template <internal::Access kAccess, internal::Access kSegmentAccess>
auto unordered_map<K, V, Traits>::find(KeyView key, std::uint64_t hash, Place& place) const -> Node* {
  if (!index_) return nullptr;
  place.segment = enter_segment<kSegmentAccess>(segments_[index_[prefix(hash, depth_)]], place.segment_hold);
  for (;;) {
    for (place.slot = place.segment->find(hash, 0); place.slot != Segment::kNone;
         place.slot = place.segment->find(hash, place.slot + 1)) {
      Node* const node = enter_node<kAccess>(place.segment->nodes[place.slot], place.node_hold);
      if (Traits::equal(node->key, key)) return node;
      place.node_hold.reset();
    }
    if (!place.segment->overflow) return nullptr;
    PageHold next;
    place.segment = enter_segment<kSegmentAccess>(place.segment->overflow, next);
    place.segment_hold = std::move(next);
  }
}

template <typename K, typename V, typename Traits>
template <typename... Args>
auto unordered_map<K, V, Traits>::find_or_add(KeyView key, Args&&... args) -> Result<Added> {
  require_relocatable<K>();
  require_relocatable<V>();
  static_assert(sizeof(Node) <= kPageBytes,
                "far memory: an entry is at most a page; keep a far::vector in it");
  const std::uint64_t hash = hash_of(key);
  {
    Place place;
    if (Node* const node = find<Access::kWrite>(key, hash, place))
      return Added{.is_new = false, .value = {std::move(place.node_hold), &node->value}};
  }
  YONDER_TRY(kept, Traits::keep(key));
  YONDER_TRY(fresh, Block::make(sizeof(Node)));
  Node* const node = std::construct_at(reinterpret_cast<Node*>(fresh.memory), std::move(kept),
                                       V(std::forward<Args>(args)...));
  const Result<void> placed = place_node(hash, fresh.block);
  if (!placed) {
    std::destroy_at(node);
    return std::unexpected(placed.error());
  }
  ++size_;
  return Added{.is_new = true, .value = {std::move(fresh.hold), &node->value}};
}

// Takes the node into its segment; on an error the caller keeps it.
template <typename K, typename V, typename Traits>
Result<void> unordered_map<K, V, Traits>::place_node(std::uint64_t hash, Block& node) {
  if (!index_) {
    YONDER_TRY(first, new_segment());
    index_ = std::make_unique<std::uint32_t[]>(1);
    segments_.push_back(std::move(first.block));
  }
  for (;;) {
    PageHold hold;
    YONDER_TRY(memory, segments_[index_[prefix(hash, depth_)]].template try_enter<Access::kWrite>(hold));
    auto* segment = reinterpret_cast<Segment*>(memory);
    if (segment->is_full() && may_split(*segment)) {
      hold.reset();
      YONDER_TRY_VOID(split(hash));
      continue;
    }
    while (segment->is_full()) {
      if (!segment->overflow) YONDER_TRY_VOID(add_overflow(*segment));
      PageHold next;
      YONDER_TRY(more, segment->overflow.template try_enter<Access::kWrite>(next));
      segment = reinterpret_cast<Segment*>(more);
      hold = std::move(next);
    }
    segment->add(hash, std::move(node));
    return {};
  }
}

template <typename K, typename V, typename Traits>
bool unordered_map<K, V, Traits>::may_split(const Segment& segment) const {
  if (segment.overflow || segment.depth >= kMaxDepth) return false;
  return segment.depth < depth_ ||
         (std::size_t{2} << depth_) <= kMaxPlacesPerSegment * (segments_.count() + 1);
}

// Splits the segment that the hash belongs to.
template <typename K, typename V, typename Traits>
Result<void> unordered_map<K, V, Traits>::split(std::uint64_t hash) {
  const std::uint32_t number = index_[prefix(hash, depth_)];
  YONDER_TRY(fresh, new_segment());
  PageHold hold;
  YONDER_TRY(memory, segments_[number].template try_enter<Access::kWrite>(hold));
  Segment& lower = *reinterpret_cast<Segment*>(memory);
  if (lower.depth == depth_) {
    auto twice = std::make_unique<std::uint32_t[]>(std::size_t{2} << depth_);
    for (std::size_t i = 0; i < std::size_t{2} << depth_; ++i) twice[i] = index_[i / 2];
    index_ = std::move(twice);
    ++depth_;
  }
  lower.split(*reinterpret_cast<Segment*>(fresh.memory));
  // The upper half of the places that belonged to the segment.
  const std::size_t places = std::size_t{1} << (depth_ - lower.depth);
  const std::size_t first = (prefix(hash, lower.depth) | 1) * places;
  const auto upper = static_cast<std::uint32_t>(segments_.count());
  segments_.push_back(std::move(fresh.block));
  for (std::size_t i = 0; i < places; ++i) index_[first + i] = upper;
  return {};
}

template <typename K, typename V, typename Traits>
Result<void> unordered_map<K, V, Traits>::add_overflow(Segment& segment) {
  YONDER_TRY(fresh, new_segment());
  segment.overflow = std::move(fresh.block);
  return {};
}

template <typename K, typename V, typename Traits>
bool unordered_map<K, V, Traits>::erase(KeyView key) {
  Block gone;
  {
    Place place;
    constexpr Access kNodeAccess = std::is_trivially_destructible_v<Node> ? Access::kRead : Access::kWrite;
    Node* const node = find<kNodeAccess, Access::kWrite>(key, hash_of(key), place);
    if (node == nullptr) return false;
    std::destroy_at(node);
    gone = place.segment->take(place.slot);
  }
  --size_;
  return true;
}

// Destroys the entries of a segment and of those behind it, and the segments themselves but for
// the memory of the first, which its block frees.
template <typename K, typename V, typename Traits>
void unordered_map<K, V, Traits>::destroy_segment(const Block& block) {
  PageHold hold;
  Segment* segment = enter_segment<Access::kWrite>(block, hold);
  Block behind;
  for (;;) {
    if constexpr (!std::is_trivially_destructible_v<Node>) {
      for (std::uint32_t slot = 0; slot < segment->count; ++slot) {
        PageHold node_hold;
        std::destroy_at(enter_node<Access::kWrite>(segment->nodes[slot], node_hold));
      }
    }
    Block next = std::move(segment->overflow);
    std::destroy_at(segment);
    hold.reset();
    behind = std::move(next);
    if (!behind) return;
    segment = enter_segment<Access::kWrite>(behind, hold);
  }
}

template <typename K, typename V, typename Traits>
void unordered_map<K, V, Traits>::clear() {
  while (segments_.count() != 0) {
    destroy_segment(segments_[segments_.count() - 1]);
    segments_.pop_back();
  }
  index_.reset();
  depth_ = 0;
  size_ = 0;
}

template <typename K, typename V, typename Traits>
template <internal::Access kAccess, typename F>
void unordered_map<K, V, Traits>::walk(F&& f) const {
  for (std::size_t number = 0; number < segments_.count(); ++number) {
    if (number + 1 < segments_.count()) segments_[number + 1].prefetch();
    PageHold hold;
    const Segment* segment = enter_segment<Access::kRead>(segments_[number], hold);
    for (;;) {
      for (std::uint32_t slot = 0; slot < segment->count; ++slot) {
        if (slot + kAhead < segment->count) segment->nodes[slot + kAhead].prefetch();
        PageHold node_hold;
        f(*enter_node<kAccess>(segment->nodes[slot], node_hold));
      }
      if (!segment->overflow) break;
      PageHold next;
      segment = enter_segment<Access::kRead>(segment->overflow, next);
      hold = std::move(next);
    }
  }
}

}  // namespace yonder::heap
