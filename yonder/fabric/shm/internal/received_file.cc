#include "yonder/fabric/shm/internal/received_file.h"

#include <unistd.h>

#include <algorithm>

#include "yonder/os/memfd.h"

namespace yonder::fabric::shm {
namespace {

void populate_present(const os::Memfd& file, os::Mapping& mapping, std::size_t limit) {
  std::size_t at = 0;
  while (at < mapping.size() && limit != 0) {
    const off_t data = ::lseek(file.fd().get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0) return;  // Nothing but holes from here.
    const off_t hole = ::lseek(file.fd().get(), data, SEEK_HOLE);
    const std::size_t begin = os::round_down(static_cast<std::size_t>(data), file.page_bytes());
    const std::size_t end = hole < 0 ? mapping.size() : static_cast<std::size_t>(hole);
    const std::size_t present = os::round_up(std::min(end, mapping.size()) - begin, file.page_bytes());
    const std::size_t length = std::min(present, os::round_up(limit, file.page_bytes()));
    // Failing is harmless: the pages come with their first touch.
    if (!mapping.populate_read(begin, length)) return;
    at = begin + length;
    limit -= std::min(limit, length);
  }
}

}  // namespace

Result<os::Mapping> map_received(os::Fd fd, const ReceivedFile& expected) {
  auto file = os::Memfd::adopt(std::move(fd));
  if (!file) return fail(ErrorCode::kMalformedFrame, "map a peer's file: not a memory file");
  const auto seals = file->seals();
  if (!seals || (*seals & os::kSealShrink) == 0)
    return fail(ErrorCode::kMalformedFrame, "map a peer's file: not sealed against shrinking");
  if (file->size() != os::round_up(expected.bytes, file->page_bytes())) {
    const auto size = static_cast<std::int64_t>(file->size());
    return fail(ErrorCode::kMalformedFrame, "map a peer's file: wrong size", size);
  }
  YONDER_TRY(mapping,
             os::Mapping::of_file(file->fd(), {.bytes = expected.bytes, .protection = expected.protection}));
  populate_present(*file, mapping, expected.populate_bytes);
  return mapping;
}

}  // namespace yonder::fabric::shm
