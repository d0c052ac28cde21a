#include "yonder/client/internal/node_map.h"

#include <bit>

namespace yonder::client::internal {

using node::ObjectPtr;

Result<NodeMap> NodeMap::create(node::protocol::NodeDescription description) {
  YONDER_TRY(spans, node::SizeClasses::create({.validator = description.validator}));
  if (description.max_data > node::protocol::kMaxDataBytes ||
      description.superblock_bytes / node::kUnitBytes >= (std::uint64_t{1} << node::kFrameIdBits)) {
    return fail(ErrorCode::kCorrupt, "description of a node");
  }
  return NodeMap(std::move(description), std::move(spans));
}

NodeMap::NodeMap(node::protocol::NodeDescription description, node::SizeClasses spans)
    : description_(std::move(description)),
      spans_(std::move(spans)),
      units_(static_cast<std::uint32_t>(description_.superblock_bytes / node::kUnitBytes)),
      units_shift_(std::has_single_bit(units_) ? static_cast<std::uint32_t>(std::countr_zero(units_)) : 0) {
  static_assert(node::protocol::NodeDescription::kMaxClasses <= node::kSpanClass);
  for (std::size_t i = 0; i < description_.classes.size(); ++i) {
    const node::protocol::ClassShape& shape = description_.classes[i];
    const node::SlotLayout layout(description_.validator, shape.slot_bytes);
    shapes_[i] = {.slot_bytes = shape.slot_bytes,
                  .frame_bytes = shape.frame_bytes,
                  .slots = shape.slots,
                  .block_shift = shape.block_shift,
                  .capacity = static_cast<std::uint32_t>(layout.capacity())};
  }
}

void NodeMap::add_superblocks(std::size_t first, std::span<const fabric::RegionToken> tokens) {
  auto& known = description_.superblocks;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (first + i == known.size()) known.push_back(tokens[i]);
  }
}

Result<void> NodeMap::check(ObjectPtr object, std::size_t bytes) const {
  if (!object.is_well_formed()) [[unlikely]]
    return fail(ErrorCode::kInvalidArgument, "object pointer");
  if (object.node() != node()) [[unlikely]]
    return fail(ErrorCode::kForeignPointer, "object pointer", object.node().value());
  if (object.life() != description_.life) [[unlikely]]
    return fail(ErrorCode::kNoSuchObject, "a pointer from before the node lost its objects");
  if (object.size_class() != node::kSpanClass && object.size() > slot_shape_of(object).capacity)
      [[unlikely]] {
    return fail(ErrorCode::kNoSuchObject, "object pointer");
  }
  if (bytes > object.size()) [[unlikely]]
    return fail(ErrorCode::kOutOfBounds, "more bytes than the object has", object.size());
  return {};
}

std::optional<fabric::RemoteAddress> NodeMap::in_frame(node::FrameId frame, std::uint64_t offset,
                                                       std::uint64_t length) const {
  const FramePlace place = place_of(frame);
  if (place.superblock >= superblock_count()) return std::nullopt;
  const fabric::RegionToken& token = superblock(place.superblock);
  const std::uint64_t begin = place.offset + offset;
  if (begin > token.length || length > token.length - begin) return std::nullopt;
  return token.at(begin);
}

std::optional<fabric::RemoteAddress> NodeMap::in_view(node::BlockId block, std::uint64_t offset,
                                                      std::uint64_t length) const {
  const node::protocol::Views& views = description_.views;
  if (offset > views.stride || length > views.stride - offset) return std::nullopt;
  const std::uint64_t begin = std::uint64_t{block.value()} * views.stride + offset;  // Below 2^26 × 2 MiB.
  if (begin > views.region.length || length > views.region.length - begin) return std::nullopt;
  return views.region.at(begin);
}

std::optional<fabric::RemoteAddress> NodeMap::view_key_word(node::BlockId block) const {
  const fabric::RegionToken& keys = description_.views.region;
  const std::uint64_t offset = std::uint64_t{block.value()} * sizeof(std::uint64_t);
  if (offset + sizeof(std::uint64_t) > keys.length) return std::nullopt;
  return keys.at(offset);
}

}  // namespace yonder::client::internal
