#include "yonder/heap/internal/paging_drop.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "yonder/base/check.h"

namespace yonder::heap::internal {
namespace {

// The calling thread, and so its process, as Linux 6.14 and later take it: PIDFD_SELF_THREAD,
// which Debian 12's headers do not have. A descriptor would be wrong after a fork.
constexpr int kOwnProcess = -10000;
// The kernel takes no more ranges at once (UIO_MAXIOV).
constexpr std::size_t kMaxRanges = 1024;

std::size_t bytes_of(std::span<const iovec> ranges) {
  std::size_t bytes = 0;
  for (const iovec& range : ranges) bytes += range.iov_len;
  return bytes;
}

bool drop_vector(std::span<const iovec> ranges) {
  const long dropped =
      ::syscall(SYS_process_madvise, kOwnProcess, ranges.data(), ranges.size(), MADV_DONTNEED, 0);
  return dropped >= 0 && static_cast<std::size_t>(dropped) == bytes_of(ranges);
}

void drop_one(const iovec& range) {
  // Not madvise(): in the preload library that is the program's, which would come back here.
  while (::syscall(SYS_madvise, range.iov_base, range.iov_len, MADV_DONTNEED) != 0) {
    YONDER_CHECK(errno == EAGAIN || errno == EINTR, "pages of a paged space can be dropped");
  }
}

}  // namespace

void PageDropper::drop(std::span<const iovec> ranges) {
  while (!ranges.empty()) {
    const auto some = ranges.first(std::min(ranges.size(), kMaxRanges));
    ranges = ranges.subspan(some.size());
    // relaxed: who does not know yet that the call is missing finds it out again.
    if (some.size() > 1 && has_vector_.load(std::memory_order_relaxed)) {
      if (drop_vector(some)) continue;
      has_vector_.store(false, std::memory_order_relaxed);
    }
    // Dropping twice what the vector had dropped already changes nothing: nobody can have
    // brought such a page back, it is still claimed by the caller.
    for (const iovec& range : some) drop_one(range);
  }
}

}  // namespace yonder::heap::internal
