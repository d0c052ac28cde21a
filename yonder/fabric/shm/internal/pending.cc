#include "yonder/fabric/shm/internal/pending.h"

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::fabric::shm {
namespace {

template <typename Copy>
void for_each_part(std::span<const LocalPiece> pieces, std::uint64_t offset, std::uint64_t bytes, Copy copy) {
  std::uint64_t done = 0;
  for (const LocalPiece& piece : pieces) {
    if (bytes == 0) return;
    if (offset >= piece.length) {
      offset -= piece.length;
      continue;
    }
    const std::uint64_t count = std::min(bytes, piece.length - offset);
    copy(piece.data + offset, done, count);
    done += count;
    bytes -= count;
    offset = 0;
  }
}

}  // namespace

void gather(std::byte* to, std::span<const LocalPiece> pieces, std::uint64_t offset, std::uint64_t bytes) {
  for_each_part(pieces, offset, bytes, [to](const std::byte* local, std::uint64_t at, std::uint64_t count) {
    sync::shared_copy(to + at, local, count);
  });
}

void scatter(std::span<const LocalPiece> pieces, std::uint64_t offset, const std::byte* from,
             std::uint64_t bytes) {
  for_each_part(pieces, offset, bytes, [from](std::byte* local, std::uint64_t at, std::uint64_t count) {
    sync::shared_copy(local, from + at, count);
  });
}

void PendingQueue::allocate() {
  entries_.resize(capacity_);
  pieces_.resize(std::size_t{capacity_} * kMaxPieces);
  inlined_.resize(std::size_t{capacity_} * max_inline_);
}

void PendingQueue::push(const WorkRequest& request, ErrorCode status) {
  YONDER_DCHECK(room() != 0, "post() accepts only what fits");
  if (entries_.empty()) allocate();
  const std::uint32_t place = tail_++ & (capacity_ - 1);
  Pending& entry = entries_[place];
  entry = Pending{.request = request, .status = status};
  entry.deadline_ns = request.deadline.instant().ns();
  entry.request.local = {};
  if (status != ErrorCode::kOk) return;
  const std::span<LocalPiece> pieces(&pieces_[std::size_t{place} * kMaxPieces], request.local.size());
  std::ranges::copy(request.local, pieces.begin());
  entry.request.local = pieces;
  if (!has(request.flags, RequestFlags::kInline) || pieces.empty()) return;
  std::byte* const copy = &inlined_[std::size_t{place} * max_inline_];
  const std::uint64_t bytes = local_bytes(request);
  gather(copy, request.local, 0, bytes);
  pieces[0] = LocalPiece{.data = copy, .length = static_cast<std::uint32_t>(bytes)};
  entry.request.local = pieces.first(1);
}

}  // namespace yonder::fabric::shm
