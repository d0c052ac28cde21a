#pragma once
// far::list: a sequence in far memory in which items are added and removed anywhere.
//
//   far::list<Job> jobs;
//   jobs.push_back({…});
//   for (auto at = jobs.begin(); at != jobs.end();)
//     at = jobs.read(at)->done ? jobs.erase(at) : jobs.next(at);
//
// Not a node per item, which would cost a fetch for each step, but chunks of up to a page with
// the items side by side; which chunk follows which is kept in local memory (24 bytes per chunk:
// 0.6 % of full ones, 1.2 % when they are half full). A chunk that is full is split in halves,
// and one that is emptied joins the next, so that two neighbours together are always more than
// half a chunk. Items at the ends are added to a chunk of their own when the last is full: lists
// that grow at the end only have full chunks.
//
// What differs from std::list: a cursor names a place. insert and erase leave other cursors to
// the same chunk and its neighbours without meaning, and return one that is good. There is no
// splice.
//
// Costs: next, previous: no barrier. read, write: one. insert, erase: one or two, and moving up
// to a chunk of bytes; smaller chunks (far::list<T, 512>) move less and need more local memory.
//
// Errors: try_… return kOutOfMemory (far memory is full, or all local memory is held) and those
// of the node, and the list is as before; the others do what HeapOptions::on_lost says.
//
// Concurrency: as std::list: const calls by many threads, others by one alone.
// Lifetime: the heap outlives it. Guards end before the list changes. A call holds at most two
// chunks.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/result.h"
#include "yonder/heap/guard.h"
#include "yonder/heap/internal/chunk_links.h"
#include "yonder/heap/relocatable.h"

namespace yonder::heap {

template <typename T, std::size_t kChunkBytes = kPageBytes>
class list {
  using Access = internal::Access;
  using Links = internal::ChunkLinks;
  using PageHold = internal::PageHold;

 public:
  using value_type = T;

  // The place of an item, or the end.
  class cursor {
   public:
    cursor() = default;
    friend bool operator==(const cursor&, const cursor&) = default;

   private:
    friend class list;
    cursor(std::uint32_t chunk, std::uint32_t place) : chunk_(chunk), place_(place) {}
    std::uint32_t chunk_ = Links::kNone;
    std::uint32_t place_ = 0;
  };

  list() = default;
  list(list&& other) noexcept : links_(std::move(other.links_)), size_(std::exchange(other.size_, 0)) {}
  list& operator=(list&& other) noexcept {
    if (this != &other) {
      clear();
      links_ = std::move(other.links_);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~list() { clear(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Local memory besides the list itself.
  std::size_t local_bytes() const { return links_.local_bytes(); }

  // ---- places
  cursor begin() const { return {links_.first(), 0}; }
  cursor end() const { return {}; }
  // Requires an item there (checked).
  cursor next(cursor at) const {
    check(at);
    return place_of(at.chunk_, at.place_ + 1);
  }
  // Requires that it is not the first (checked). That of the end is the last.
  cursor previous(cursor at) const {
    if (at.place_ != 0) return {at.chunk_, at.place_ - 1};
    const std::uint32_t chunk = at == end() ? links_.last() : links_[at.chunk_].previous;
    YONDER_CHECK(chunk != Links::kNone, "far::list: before the first");
    return {chunk, links_[chunk].items - 1};
  }

  // ---- one item. Requires that there is one (checked).
  ReadGuard<T> read(cursor at) const {
    check(at);
    PageHold hold;
    const T* const items = enter<Access::kRead>(at.chunk_, hold);
    return {std::move(hold), items + at.place_};
  }
  WriteGuard<T> write(cursor at) {
    check(at);
    PageHold hold;
    T* const items = enter<Access::kWrite>(at.chunk_, hold);
    return {std::move(hold), items + at.place_};
  }
  T get(cursor at) const { return *read(at); }
  ReadGuard<T> read_front() const { return read(begin()); }
  ReadGuard<T> read_back() const { return read(previous(end())); }

  // ---- adding and removing
  // Puts it before `at`; where it is now.
  Result<cursor> try_insert(cursor at, T value);
  cursor insert(cursor at, T value) {
    const Result<cursor> inserted = try_insert(at, std::move(value));
    if (!inserted) internal::lost(inserted.error());
    return *inserted;
  }
  void push_back(T value) { (void)insert(end(), std::move(value)); }
  void push_front(T value) { (void)insert(begin(), std::move(value)); }
  // What came behind it. Requires an item there (checked).
  cursor erase(cursor at);
  T pop_back() { return take(previous(end())); }
  T pop_front() { return take(begin()); }
  void clear();

  // Calls f(item) for each, in order, with one guard per chunk.
  template <typename F>
  void for_each(F&& f) const {
    walk<Access::kRead>([&](const T& item) { f(item); });
  }
  template <typename F>
  void for_each(F&& f) {
    walk<Access::kWrite>(std::forward<F>(f));
  }

 private:
  static constexpr std::uint32_t items_per_chunk() {
    static_assert(sizeof(T) <= kChunkBytes && kChunkBytes <= kPageBytes,
                  "far memory: an item is at most a chunk, and a chunk at most a page (4096 bytes)");
    return static_cast<std::uint32_t>(kChunkBytes / sizeof(T));
  }
  // Moves items to where there are none; the two may overlap.
  static void relocate(T* to, const T* from, std::size_t count) {
    std::memmove(static_cast<void*>(to), static_cast<const void*>(from), count * sizeof(T));
  }
  void check(cursor at) const {
    YONDER_CHECK(at.chunk_ != Links::kNone && at.place_ < links_[at.chunk_].items,
                 "far::list: no item there");
  }
  // The place behind the last of a chunk is the first of the next.
  cursor place_of(std::uint32_t chunk, std::uint32_t place) const {
    return place < links_[chunk].items ? cursor(chunk, place) : cursor(links_[chunk].next, 0);
  }
  template <Access kAccess>
  T* enter(std::uint32_t chunk, PageHold& hold) const {
    return reinterpret_cast<T*>(links_[chunk].block.template enter<kAccess>(hold));
  }
  template <Access kAccess>
  Result<T*> try_enter(std::uint32_t chunk, PageHold& hold) const {
    YONDER_TRY(memory, links_[chunk].block.template try_enter<kAccess>(hold));
    return reinterpret_cast<T*>(memory);
  }
  T take(cursor at) {
    T value = std::move(*write(at));
    erase(at);
    return value;
  }

  Result<cursor> place_for(cursor at);
  Result<cursor> split(cursor at);
  bool join_next(std::uint32_t chunk);
  template <Access kAccess, typename F>
  void walk(F&& f) const;

  Links links_;
  std::size_t size_ = 0;
};

template <typename T, std::size_t kChunkBytes>
struct is_relocatable<list<T, kChunkBytes>> : std::true_type {};

template <typename T, std::size_t kChunkBytes>
auto list<T, kChunkBytes>::try_insert(cursor at, T value) -> Result<cursor> {
  YONDER_TRY(place, place_for(at));
  PageHold hold;
  YONDER_TRY(items, try_enter<Access::kWrite>(place.chunk_, hold));
  std::uint32_t& count = links_[place.chunk_].items;
  relocate(items + place.place_ + 1, items + place.place_, count - place.place_);
  std::construct_at(items + place.place_, std::move(value));
  ++count;
  ++size_;
  return place;
}

// A place before `at`, in a chunk with room.
template <typename T, std::size_t kChunkBytes>
auto list<T, kChunkBytes>::place_for(cursor at) -> Result<cursor> {
  require_relocatable<T>();
  // Before the first of a chunk is also behind the last of the one before it.
  const std::uint32_t before = at == end()      ? links_.last()
                               : at.place_ == 0 ? links_[at.chunk_].previous
                                                : Links::kNone;
  if (before != Links::kNone && links_[before].items < items_per_chunk())
    return cursor(before, links_[before].items);
  if (at != end() && links_[at.chunk_].items < items_per_chunk()) return at;
  if (at.place_ != 0) return split(at);
  YONDER_TRY(fresh, internal::Block::make(items_per_chunk() * sizeof(T)));
  return cursor(links_.insert_behind(before, std::move(fresh.block)), 0);
}

// The upper half of a full chunk becomes a chunk of its own; where `at` is now.
template <typename T, std::size_t kChunkBytes>
auto list<T, kChunkBytes>::split(cursor at) -> Result<cursor> {
  YONDER_TRY(fresh, internal::Block::make(items_per_chunk() * sizeof(T)));
  PageHold hold;
  YONDER_TRY(items, try_enter<Access::kWrite>(at.chunk_, hold));
  const std::uint32_t count = links_[at.chunk_].items;
  const std::uint32_t lower = count / 2;
  relocate(reinterpret_cast<T*>(fresh.memory), items + lower, count - lower);
  const std::uint32_t upper = links_.insert_behind(at.chunk_, std::move(fresh.block));
  links_[upper].items = count - lower;
  links_[at.chunk_].items = lower;
  return at.place_ <= lower ? at : cursor(upper, at.place_ - lower);
}

template <typename T, std::size_t kChunkBytes>
auto list<T, kChunkBytes>::erase(cursor at) -> cursor {
  check(at);
  Links::Record& record = links_[at.chunk_];
  {
    PageHold hold;
    T* const items = enter<Access::kWrite>(at.chunk_, hold);
    std::destroy_at(items + at.place_);
    relocate(items + at.place_, items + at.place_ + 1, record.items - at.place_ - 1);
  }
  --record.items;
  --size_;
  if (record.items == 0) {
    const std::uint32_t next = record.next;
    links_.remove(at.chunk_);
    return {next, 0};
  }
  // Either neighbour: else one that shrinks could stay behind a small one for ever.
  if (!join_next(at.chunk_) && record.previous != Links::kNone) {
    const std::uint32_t previous = record.previous;
    const std::uint32_t shift = links_[previous].items;
    if (join_next(previous)) at = {previous, shift + at.place_};
  }
  return place_of(at.chunk_, at.place_);
}

// Moves the items of the next chunk to this one, if both together fill less than half of it, so
// that a join is not followed by a split soon.
template <typename T, std::size_t kChunkBytes>
bool list<T, kChunkBytes>::join_next(std::uint32_t chunk) {
  Links::Record& record = links_[chunk];
  if (record.next == Links::kNone || record.items + links_[record.next].items > items_per_chunk() / 2)
    return false;
  {
    const Links::Record& gone = links_[record.next];
    PageHold hold;
    PageHold gone_hold;
    T* const items = enter<Access::kWrite>(chunk, hold);
    relocate(items + record.items, enter<Access::kRead>(record.next, gone_hold), gone.items);
    record.items += gone.items;
  }
  links_.remove(record.next);
  return true;
}

template <typename T, std::size_t kChunkBytes>
void list<T, kChunkBytes>::clear() {
  if constexpr (!std::is_trivially_destructible_v<T>)
    walk<Access::kWrite>([](T& item) { std::destroy_at(&item); });
  while (links_.first() != Links::kNone) links_.remove(links_.first());
  links_ = Links();
  size_ = 0;
}

template <typename T, std::size_t kChunkBytes>
template <internal::Access kAccess, typename F>
void list<T, kChunkBytes>::walk(F&& f) const {
  for (std::uint32_t chunk = links_.first(); chunk != Links::kNone; chunk = links_[chunk].next) {
    if (links_[chunk].next != Links::kNone) links_[links_[chunk].next].block.prefetch();
    PageHold hold;
    T* const items = enter<kAccess>(chunk, hold);
    for (std::uint32_t i = 0; i < links_[chunk].items; ++i) f(items[i]);
  }
}

}  // namespace yonder::heap
