#include "yonder/client/internal/near_reader.h"

namespace yonder::client::internal {

bool NearReader::try_elsewhere(const NodeMap& map, node::ObjectPtr& object, std::span<std::byte> out,
                               node::ObjectVersion& version, bool may_scan) {
  if (out.size() > node::kMaxOptimisticBytes) return false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!copy_from_elsewhere(map, object, out, version, may_scan)) return false;
    if (took_little_time()) return true;
  }
  return false;
}

bool NearReader::copy_from_elsewhere(const NodeMap& map, node::ObjectPtr& object, std::span<std::byte> out,
                                     node::ObjectVersion& version, bool may_scan) const {
  const SlotShape& shape = map.slot_shape_of(object);
  const node::BlockEntry entry = load_entry(object);
  if (!entry.valid() || object.slot() >= shape.slots) return false;
  const Spot frame = spot_of(map, entry.frame(), 0);
  if (frame.window == nullptr || frame.at + shape.frame_bytes > frame.window->length()) return false;
  const node::SlotLayout layout(map.validator(), shape.slot_bytes);
  const std::uint32_t headers = may_scan ? std::min(shape.slots, kMaxScan) : 1;

  node::HeaderWord left_behind;
  std::uint32_t slot = object.slot();
  bool proven = false;
  const bool counts = frame.window->look([&](const std::byte* base) {
    // relaxed: whoever copies from a slot that fits looks at its header again.
    const auto header = [&] {
      return node::HeaderWord(
          load_word(base + frame.at + std::uint64_t{slot} * shape.slot_bytes, std::memory_order_relaxed));
    };
    left_behind = header();
    if (left_behind.is_moved()) return;
    for (std::uint32_t looked_at = 0; looked_at < headers; ++looked_at) {
      if (header().names(object.home(), object.id())) {
        proven =
            copy_slot(layout, base + frame.at + std::uint64_t{slot} * shape.slot_bytes, object, out, version);
        return;
      }
      slot = slot + 1 == shape.slots ? 0 : slot + 1;
    }
  });
  if (!counts) return false;
  if (left_behind.is_moved()) {
    // The block is on its way, and this object is there already. Its pointer fits
    // again, or can be corrected, when the table names the new frame.
    if (left_behind.slot() >= shape.slots) return false;
    const Spot spot = spot_of(map, left_behind.frame(), std::uint64_t{left_behind.slot()} * shape.slot_bytes);
    return copy_at(spot, layout, object, out, version);
  }
  if (proven) object = object.with_slot(slot);
  return proven;
}

}  // namespace yonder::client::internal
