#include "yonder/segment/internal/kept.h"

#include <algorithm>
#include <utility>

namespace yonder::segment::internal {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{256} << 10;

}  // namespace

Result<std::shared_ptr<Kept>> make_kept(fabric::Fabric& fabric, const SegmentRecord& record,
                                        const std::string& address, const fabric::RegionToken& from) {
  YONDER_TRY(file, os::Memfd::create({.name = "yonder-segment-kept", .size = record.bytes}));
  auto kept = std::make_shared<Kept>(record, from, std::move(file));
  YONDER_TRY(memory, os::Mapping::of_file(kept->file.fd(), {.bytes = static_cast<std::size_t>(record.bytes),
                                                            .protection = os::Protection::kReadWrite}));
  kept->memory = std::move(memory);
  YONDER_TRY(region, fabric.register_memory({.memory = kept->memory.bytes(),
                                             .rights = fabric::Rights::kRead,
                                             .backing = fabric::Backing{.fd = kept->file.fd().get()}}));
  kept->region = std::move(region);
  YONDER_TRY(lane, Lane::connect(fabric, address, {}));
  const sync::LockGuard lock(kept->copying);
  kept->lane = std::move(lane);
  return kept;
}

Result<void> copy_range(Kept& kept, ByteRange range, Deadline deadline) {
  if (range.offset > kept.memory.size() || range.length > kept.memory.size() - range.offset)
    return fail(ErrorCode::kOutOfBounds, "keep a segment beyond its end");
  const sync::LockGuard lock(kept.copying);
  const std::uint64_t end = range.offset + range.length;
  for (std::uint64_t at = range.offset; at < end; at += kCopyBytes) {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kCopyBytes, end - at));
    const fabric::LocalPiece piece = fabric::LocalPiece::of(
        kept.memory.bytes(static_cast<std::size_t>(at), bytes), kept.region.local_key());
    YONDER_TRY_VOID(kept.lane->read(piece, kept.from.at(at), deadline));
  }
  return {};
}

}  // namespace yonder::segment::internal
