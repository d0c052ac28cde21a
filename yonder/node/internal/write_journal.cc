#include "yonder/node/internal/write_journal.h"

#include <utility>

namespace yonder::node::internal {

Result<std::unique_ptr<WriteJournal>> WriteJournal::create(std::uint32_t lanes) {
  YONDER_TRY(memfd, os::Memfd::create({.name = "yonder-journal", .size = std::size_t{lanes} * kLaneBytes}));
  YONDER_TRY_VOID(memfd.seal(os::kSealShrink | os::kSealGrow));
  return open(std::move(memfd));
}

Result<std::unique_ptr<WriteJournal>> WriteJournal::adopt(os::Memfd memfd) {
  YONDER_TRY(seals, memfd.seals());
  if ((seals & os::kSealShrink) == 0 || memfd.size() % kLaneBytes != 0)
    return fail(ErrorCode::kCorrupt, "write journal: its size", static_cast<std::int64_t>(memfd.size()));
  return open(std::move(memfd));
}

Result<std::unique_ptr<WriteJournal>> WriteJournal::open(os::Memfd memfd) {
  YONDER_TRY(mapping, os::Mapping::of_file(
                          memfd.fd(), {.bytes = memfd.size(), .protection = os::Protection::kReadWrite}));
  return std::unique_ptr<WriteJournal>(new WriteJournal(std::move(memfd), std::move(mapping)));
}

WriteJournal::Note WriteJournal::note(std::uint32_t index) {
  const Lane of = lane(index);
  const std::uint64_t place = of.field(Lane::kPlace).load(std::memory_order_relaxed);
  const std::uint64_t bytes = of.field(Lane::kBytes).load(std::memory_order_relaxed);
  const HeaderWord word(of.field(Lane::kWord).load(std::memory_order_acquire));
  if (bytes > kMaxObjectBytes || place >> (kSlotBits + kFrameIdBits) != 0) return {};
  return {.word = word,
          .frame = FrameId(static_cast<std::uint32_t>(place >> kSlotBits)),
          .slot = static_cast<std::uint32_t>(place & ((std::uint64_t{1} << kSlotBits) - 1)),
          .data = {of.memory_ + kDataAt, bytes}};
}

void WriteJournal::give_back(const Lane& lane) {
  const auto offset = static_cast<std::size_t>(lane.memory_ - mapping_.data());
  lane.field(Lane::kBytes).store(0, std::memory_order_relaxed);
  // Failure leaves the pages in place: nothing is lost but memory.
  (void)memfd_.punch_hole(offset + kKeptBytes, kLaneBytes - kKeptBytes);
}

}  // namespace yonder::node::internal
