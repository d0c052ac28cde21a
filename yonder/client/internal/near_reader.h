#pragma once
// NearReader: one-sided reads of a node whose memory is mapped here (shm).
//
// The reader of one_sided_read.h with loads instead of fetches: the table's word,
// the header, the object, the header again. Sound for every validator, because
// header and payload are loaded in that order by our own processor (S2 by H2 of
// header_word.h), and the table's word is loaded each time (S1). It handles the one
// case that matters for speed, an object that is where its pointer says, and leaves
// all others to the long way, which also finds out why a window has ended.
//
// Concurrency: the session's thread. Lifetime: the endpoint outlives it.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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
    if (!table_.is_mapped()) table_ = endpoint.window(map.table().key).value_or(fabric::Window());
    superblocks_.resize(map.superblock_count());
    for (std::size_t i = 0; i < superblocks_.size(); ++i) {
      if (superblocks_[i].is_mapped()) continue;
      superblocks_[i] = endpoint.window(map.superblock(i).key).value_or(fabric::Window());
    }
  }
  void clear() {
    table_ = {};
    superblocks_.clear();
  }
  bool is_open() const { return table_.is_mapped(); }

  // The object's first bytes, if it is where its pointer says and nothing is in the
  // way. Requires map.is_plausible().
  std::optional<node::ObjectVersion> try_read(const NodeMap& map, node::ObjectPtr object,
                                              std::span<std::byte> out) const {
    const SlotShape shape = map.shape_of(object);
    if (!is_open() || object.slot() >= shape.slots || out.size() > node::kMaxOptimisticBytes) [[unlikely]]
      return std::nullopt;
    const std::uint64_t offset = std::uint64_t{object.slot()} * shape.slot_bytes;
    prefetch_guess(map, object, shape);
    const std::uint64_t start = node::ticks();
    const node::BlockEntry entry = load_entry(object.home());
    if (!entry.valid() || entry.size_class() != object.size_class()) [[unlikely]]
      return std::nullopt;
    const NodeMap::FramePlace place = map.place_of(entry.frame());
    if (place.superblock >= superblocks_.size()) [[unlikely]]
      return std::nullopt;
    const fabric::Window& window = superblocks_[place.superblock];
    const std::uint64_t at = place.offset + offset;
    if (at > window.length() || shape.slot_bytes > window.length() - at) [[unlikely]]
      return std::nullopt;
    const node::SlotLayout layout(map.validator(), shape.slot_bytes);
    std::optional<node::ObjectVersion> version;
    const bool counts = window.look([&](const std::byte* base) {
      const std::byte* slot = base + at;
      // acquire: pairs with the release that left this word; the payload is complete.
      const node::HeaderWord before(load_word(slot, std::memory_order_acquire));
      if (!before.names(object.home(), object.id()) || !before.is_readable()) [[unlikely]]
        return;
      if (before.is_blank()) [[unlikely]] {
        std::ranges::fill(out, std::byte{0});  // The word alone proves it.
        version = node::ObjectVersion(before.version());
        return;
      }
      if (!out.empty()) layout.load(slot, out);
      // The copy comes before the second look: pairs with the release with which a
      // writer's header leaves state live, before it touches the payload.
      std::atomic_thread_fence(std::memory_order_acquire);
      const node::HeaderWord after(load_word(slot, std::memory_order_relaxed));
      if (proves_copy(before, after)) [[likely]]
        version = node::ObjectVersion(before.version());
    });
    if (!counts || node::ticks() - start >= node::kMaxCopyTicks) [[unlikely]]
      return std::nullopt;
    return version;
  }

  // Brings the table's word and the object's first lines near, for whoever reads
  // several. Requires map.is_plausible().
  void prefetch(const NodeMap& map, node::ObjectPtr object) const {
    table_.prefetch(std::uint64_t{object.home().value()} * sizeof(std::uint64_t));
    prefetch_guess(map, object, map.shape_of(object));
  }

 private:
  // Lines of an object that are asked for before it is known to be there.
  static constexpr std::uint64_t kPrefetchBytes = 512;

  static std::uint64_t load_word(const std::byte* at, std::memory_order order) {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at)))
        .load(order);
  }

  // The object's first lines, where it is if its block never moved: the processor's
  // own prefetchers follow.
  void prefetch_guess(const NodeMap& map, node::ObjectPtr object, const SlotShape& shape) const {
    const NodeMap::FramePlace place = map.place_of(map.guess(object, shape));
    if (place.superblock >= superblocks_.size()) return;
    const std::uint64_t at = place.offset + std::uint64_t{object.slot()} * shape.slot_bytes;
    const std::uint64_t end = at + std::min<std::uint64_t>(shape.slot_bytes, kPrefetchBytes);
    for (std::uint64_t line = at; line < end; line += node::kLineBytes)
      superblocks_[place.superblock].prefetch(line);
  }

  node::BlockEntry load_entry(node::BlockId block) const {
    const std::uint64_t offset = std::uint64_t{block.value()} * sizeof(std::uint64_t);
    std::uint64_t bits = 0;
    if (offset + sizeof bits > table_.length()) return {};
    // acquire: as BlockTable::lookup().
    const bool counts = table_.look(
        [&](const std::byte* base) { bits = load_word(base + offset, std::memory_order_acquire); });
    return counts ? node::BlockEntry(bits) : node::BlockEntry();
  }

  fabric::Window table_;
  std::vector<fabric::Window> superblocks_;
};

}  // namespace yonder::client::internal
