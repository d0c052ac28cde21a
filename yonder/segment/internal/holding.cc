#include "yonder/segment/internal/holding.h"

namespace yonder::segment::internal {

Result<std::shared_ptr<Holding>> make_holding(Arena& arena, const SegmentRecord& record) {
  if (!arena.contains(record.slots))
    return fail(ErrorCode::kOutOfBounds, "map a segment: its slots are outside this arena",
                record.slots.first);
  YONDER_TRY(file,
             os::Memfd::create({.name = "yonder-segment", .size = static_cast<std::size_t>(record.bytes)}));
  // Readers in other processes rely on it.
  YONDER_TRY_VOID(file.seal(os::kSealShrink | os::kSealGrow));
  YONDER_TRY(second, os::Mapping::of_file(file.fd(),
                                          {.bytes = file.size(), .protection = os::Protection::kReadWrite}));
  YONDER_TRY_VOID(arena.map(record.slots, file));
  return std::make_shared<Holding>(record, std::move(file), std::move(second));
}

Result<std::vector<ByteRange>> data_ranges(const os::Memfd& file, const DataRangesOptions& options) {
  std::vector<ByteRange> ranges;
  for (std::uint64_t offset = options.from; offset < file.size();) {
    YONDER_TRY(found, file.next_data(static_cast<std::size_t>(offset)));
    if (found.length == 0) break;
    const bool joins =
        !ranges.empty() && found.offset - (ranges.back().offset + ranges.back().length) < options.join;
    if (joins) {
      ranges.back().length = found.offset + found.length - ranges.back().offset;
    } else if (ranges.size() < options.limit) {
      ranges.push_back({found.offset, found.length});
    } else {
      break;
    }
    offset = found.offset + found.length;
  }
  return ranges;
}

}  // namespace yonder::segment::internal
