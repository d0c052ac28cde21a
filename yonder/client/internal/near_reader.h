#pragma once
// NearReader: one-sided reads of a node whose memory is mapped here (shm).
//
// The reader of one_sided_read.h with loads instead of fetches: the table's word,
// the header, the object, the header again. Sound for every validator, because
// header and payload are loaded in that order by our own processor (S2 by H2 of
// header_word.h), and the table's word is loaded each time (S1). It handles the cases
// that matter for speed: an object that is where its pointer says, one whose block is
// on its way to another frame, and one that compaction has put into a slot nearby.
// All others are left to the long way, which also finds out why a window has ended.
//
// Concurrency: the session's thread. Lifetime: the endpoint outlives it.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "yonder/client/internal/node_map.h"
#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/window.h"
#include "yonder/node/block_table.h"
#include "yonder/node/header_word.h"
#include "yonder/node/heap.h"
#include "yonder/node/object_ptr.h"
#include "yonder/node/ticks.h"

namespace yonder::client::internal {

class NearReader {
 public:
  // Takes the windows that the endpoint can give now. Cheap; call it after a read
  // that went the long way.
  void open_windows(fabric::Endpoint& endpoint, const NodeMap& map) {
    if (!table_.is_mapped()) {
      table_ = endpoint.window(map.table().key).value_or(fabric::Window());
      if (!table_.is_mapped()) return;  // Without it no superblock is of use.
    }
    superblocks_.resize(map.superblock_count());
    superblock_count_ = superblocks_.size();
    for (std::size_t i = 0; i < superblocks_.size(); ++i) {
      if (superblocks_[i].is_mapped()) continue;
      superblocks_[i] = endpoint.window(map.superblock(i).key).value_or(fabric::Window());
    }
  }
  void clear() {
    table_ = {};
    superblocks_.clear();
    superblock_count_ = 0;
  }
  bool is_open() const { return table_.is_mapped(); }
  // Any at all, of now or before: the cheapest question, for who reads over a network.
  bool has_superblocks() const { return superblock_count_ != 0; }

  // The object's first bytes and their version, if it is where its pointer says and
  // nothing is in the way. Requires map.is_plausible().
  bool try_read(const NodeMap& map, node::ObjectPtr object, std::span<std::byte> out,
                node::ObjectVersion& version) {
    // S1 and S4 want to know how long the reading took at most. The end of the read
    // before is an early enough start, and costs no second look at the clock; who
    // comes here seldom has to read twice.
    if (!copy_object(map, object, out, version)) [[unlikely]]
      return false;
    return took_little_time() || (copy_object(map, object, out, version) && took_little_time());
  }

  // The same for an object that try_read() did not find: follows the word that the
  // object left behind or, if `may_scan`, looks through its block's frame, and then
  // corrects the pointer. Requires map.is_plausible().
  bool try_elsewhere(const NodeMap& map, node::ObjectPtr& object, std::span<std::byte> out,
                     node::ObjectVersion& version, bool may_scan);

  // Brings the table's word and the object's first lines near, for whoever reads
  // several. Requires map.is_plausible().
  void prefetch(const NodeMap& map, node::ObjectPtr object) const {
    table_.prefetch(std::uint64_t{object.home().value()} * sizeof(std::uint64_t));
    const SlotShape& shape = map.slot_shape_of(object);
    const Spot spot = spot_of(map, map.guess(object, shape), std::uint64_t{object.slot()} * shape.slot_bytes);
    if (spot.window == nullptr) return;
    const std::uint64_t end = spot.at + std::min<std::uint64_t>(object.size(), kAheadBytes);
    for (std::uint64_t line = spot.at; line < end; line += node::kLineBytes) spot.window->prefetch(line);
  }

 private:
  // Headers that one scan looks at: a displaced object is put into the next free slot
  // (compactor.h), so most scans end after a few.
  static constexpr std::uint32_t kMaxScan = 512;
  // How much of an object is asked for by prefetch(): the copy is far enough away.
  static constexpr std::uint64_t kAheadBytes = 512;

  bool took_little_time() {
    const std::uint64_t start = std::exchange(last_end_, node::ticks());
    return last_end_ - start < node::kMaxCopyTicks;
  }

  // Where a slot is. No window: its superblock is not mapped here.
  struct Spot {
    const fabric::Window* window = nullptr;
    std::uint64_t at = 0;
  };
  Spot spot_of(const NodeMap& map, node::FrameId frame, std::uint64_t offset) const {
    const NodeMap::FramePlace place = map.place_of(frame);
    if (place.superblock >= superblock_count_) [[unlikely]]
      return {};
    return {.window = &superblocks_[place.superblock], .at = place.offset + offset};
  }

  [[gnu::always_inline]] bool copy_object(const NodeMap& map, node::ObjectPtr object,
                                          std::span<std::byte> out, node::ObjectVersion& version) const {
    const SlotShape& shape = map.slot_shape_of(object);
    const std::uint64_t offset = std::uint64_t{object.slot()} * shape.slot_bytes;
    const node::FrameId guess = map.guess(object, shape);
    Spot spot = spot_of(map, guess, offset);
    if (spot.window != nullptr) prefetch_first(spot, object);
    const node::BlockEntry entry = load_entry(object);
    if (!entry.valid() || object.slot() >= shape.slots || out.size() > node::kMaxOptimisticBytes) [[unlikely]]
      return false;
    if (entry.frame() != guess) spot = spot_of(map, entry.frame(), offset);
    return copy_at(spot, {map.validator(), shape.slot_bytes}, object, out, version);
  }

  // The table's word of the object's block; not valid if it is none of its class.
  node::BlockEntry load_entry(node::ObjectPtr object) const {
    const std::uint64_t at = std::uint64_t{object.home().value()} * sizeof(std::uint64_t);
    std::uint64_t word = 0;
    if (at >= table_.length() || !table_.load_word(at, word)) [[unlikely]]
      return {};
    const node::BlockEntry entry(word);
    return entry.size_class() == object.size_class() ? entry : node::BlockEntry();
  }

  bool copy_at(const Spot& spot, const node::SlotLayout& layout, node::ObjectPtr object,
               std::span<std::byte> out, node::ObjectVersion& version) const {
    if (spot.window == nullptr || spot.at + layout.slot_bytes() > spot.window->length()) [[unlikely]]
      return false;
    bool proven = false;
    const bool counts = spot.window->look(
        [&](const std::byte* base) { proven = copy_slot(layout, base + spot.at, object, out, version); });
    return counts && proven;
  }
  // What try_elsewhere() does, without the clock.
  bool copy_from_elsewhere(const NodeMap& map, node::ObjectPtr& object, std::span<std::byte> out,
                           node::ObjectVersion& version, bool may_scan) const;

  // The header, the payload, the header again.
  static bool copy_slot(const node::SlotLayout& layout, const std::byte* slot, node::ObjectPtr object,
                        std::span<std::byte> out, node::ObjectVersion& version) {
    // acquire: pairs with the release that left this word; the payload is complete.
    const node::HeaderWord before(load_word(slot, std::memory_order_acquire));
    if (!before.names(object.home(), object.id()) || !before.is_readable()) [[unlikely]]
      return false;
    version = node::ObjectVersion(before.version());
    if (before.is_blank()) [[unlikely]] {
      std::ranges::fill(out, std::byte{0});  // The word alone proves it.
      return true;
    }
    if (!out.empty()) layout.load(slot, out);
    // The copy comes before the second look: pairs with the release with which a
    // writer's header leaves state live, before it touches the payload.
    std::atomic_thread_fence(std::memory_order_acquire);
    const node::HeaderWord after(load_word(slot, std::memory_order_relaxed));
    return after == before || proves_copy(before, after);
  }

  static constexpr std::uint64_t kPageBytes = 4096;

  static std::uint64_t load_word(const std::byte* at, std::memory_order order) {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at)))
        .load(order);
  }

  // The object's first line, and the first one on its next page: the processor's own
  // prefetchers follow, but not across pages.
  static void prefetch_first(const Spot& spot, node::ObjectPtr object) {
    spot.window->prefetch(spot.at);
    const std::uint64_t next_page = (spot.at | (kPageBytes - 1)) + 1;
    if (next_page < spot.at + object.size()) spot.window->prefetch(next_page);
  }

  fabric::Window table_;
  std::vector<fabric::Window> superblocks_;
  std::size_t superblock_count_ = 0;  // superblocks_.size(), without its division.
  std::uint64_t last_end_ = 0;        // When the last read ended, in ticks.
};

}  // namespace yonder::client::internal
