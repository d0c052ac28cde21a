#pragma once
// NodeMap: what a client knows of a node's memory, and the arithmetic of reading it.
//
// From a pointer and a frame to a region and an offset. Everything that is
// computed here stays inside the registered regions: the description was checked
// when it was decoded, pointers are checked here.
//
// Concurrency: the session's thread. Lifetime: a value.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/types.h"
#include "yonder/node/block_table.h"
#include "yonder/node/header_word.h"
#include "yonder/node/object_ptr.h"
#include "yonder/node/protocol.h"
#include "yonder/node/size_class.h"
#include "yonder/node/slot_layout.h"

namespace yonder::client::internal {

// A class as a reader needs it: one cache line holds several.
struct SlotShape {
  std::uint32_t slot_bytes = 0;
  std::uint32_t frame_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t block_shift = 0;
  std::uint32_t capacity = 0;  // Payload bytes of a slot.
};

class NodeMap {
 public:
  // From the first answer to Describe. kCorrupt.
  static Result<NodeMap> create(node::protocol::NodeDescription description);

  node::NodeId node() const { return description_.node; }
  node::Validator validator() const { return description_.validator; }
  // A copy proves by itself that it is the object, wherever it was made.
  bool is_self_proving() const { return validator() == node::Validator::kChecksum; }
  std::uint32_t max_data() const { return description_.max_data; }

  // Tokens of the superblocks from number `first` on; the known ones stay.
  void add_superblocks(std::size_t first, std::span<const fabric::RegionToken> tokens);
  std::size_t superblock_count() const { return description_.superblocks.size(); }
  const fabric::RegionToken& superblock(std::size_t index) const { return description_.superblocks[index]; }
  const fabric::RegionToken& table() const { return description_.block_table; }

  // What can be told without looking: kInvalidArgument, kForeignPointer,
  // kNoSuchObject, kOutOfBounds (more bytes than the object has).
  Result<void> check(node::ObjectPtr object, std::size_t bytes) const;

  // The same for objects that are not spans, without saying what is wrong.
  // An id of 0 passes; no object has it. Classes that are not there, and spans, have
  // no capacity.
  bool is_plausible(node::ObjectPtr object, std::size_t bytes) const {
    return object.is_of(node(), description_.life) && bytes <= object.size() &&
           object.size() - 1 < shapes_[object.size_class()].capacity;
  }

  // Both require check() or is_plausible().
  // Without spans: is_plausible().
  const SlotShape& slot_shape_of(node::ObjectPtr object) const { return shapes_[object.size_class()]; }
  SlotShape shape_of(node::ObjectPtr object) const {
    if (object.size_class() != node::kSpanClass) [[likely]]
      return shapes_[object.size_class()];
    const auto bytes = static_cast<std::uint32_t>(spans_.span_bytes_for(object.size()));
    return {.slot_bytes = bytes, .frame_bytes = bytes, .slots = 1};
  }

  // The table word of a block; nullopt: the table has no such block.
  std::optional<fabric::RemoteAddress> table_word(node::BlockId block) const {
    const std::uint64_t offset = std::uint64_t{block.value()} * sizeof(std::uint64_t);
    if (offset + sizeof(std::uint64_t) > table().length) return std::nullopt;
    return table().at(offset);
  }

  // The node remaps its blocks: those that are not spans are found by their ids.
  node::protocol::ViewKind views() const { return description_.views.kind; }
  bool has_views() const { return views() != node::protocol::ViewKind::kNone; }
  // Bytes [offset, offset + length) of a block in the arena of views; nullopt: there is no
  // such block. Requires ViewKind::kArena.
  std::optional<fabric::RemoteAddress> in_view(node::BlockId block, std::uint64_t offset,
                                               std::uint64_t length) const;
  // The word that holds the key of a block's region; nullopt: there is no such block.
  // Requires ViewKind::kKeys.
  std::optional<fabric::RemoteAddress> view_key_word(node::BlockId block) const;

  // Where the object's block is if it never moved. May name a frame that never was.
  node::FrameId guess(node::ObjectPtr object, const SlotShape& shape) const {
    constexpr std::uint32_t kFrameMask = (std::uint32_t{1} << node::kFrameIdBits) - 1;
    const node::FrameId frame = node::BlockTable::guess(object.home(), object.slot() >> shape.block_shift);
    return node::FrameId(frame.value() & kFrameMask);
  }

  // Where a frame is: superblock and offset in it.
  struct FramePlace {
    std::size_t superblock = 0;
    std::uint64_t offset = 0;
  };
  FramePlace place_of(node::FrameId frame) const {
    // Two divisions are a tenth of a read from memory that is mapped here.
    if (units_shift_ != 0) [[likely]] {
      return {.superblock = frame.value() >> units_shift_,
              .offset = std::uint64_t{frame.value() & (units_ - 1)} * node::kUnitBytes};
    }
    return {.superblock = frame.value() / units_,
            .offset = std::uint64_t{frame.value() % units_} * node::kUnitBytes};
  }
  // Bytes [offset, offset + length) of a frame, if its superblock is known and has
  // so many.
  std::optional<fabric::RemoteAddress> in_frame(node::FrameId frame, std::uint64_t offset,
                                                std::uint64_t length) const;
  bool knows(node::FrameId frame) const { return place_of(frame).superblock < superblock_count(); }

 private:
  NodeMap(node::protocol::NodeDescription description, node::SizeClasses spans);

  node::protocol::NodeDescription description_;
  node::SizeClasses spans_;              // For the size of spans only.
  std::array<SlotShape, 256> shapes_{};  // By class; a byte is always an index.
  std::uint32_t units_;                  // Frame units per superblock.
  std::uint32_t units_shift_;            // … their logarithm, if there is one; else 0.
};

}  // namespace yonder::client::internal
