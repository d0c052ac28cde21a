#include "yonder/os/wait.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "yonder/base/check.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {

Deadline fix_deadline(Deadline deadline) {
  return deadline.is_default() ? Deadline::at(SteadyClock::read() + kDefaultWait) : deadline;
}

std::optional<timespec> time_left(Deadline deadline) {
  YONDER_CHECK(!deadline.is_default(), "the deadline was fixed before the wait");
  if (deadline == Deadline::never()) return std::nullopt;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t left = std::max<std::int64_t>((deadline.instant() - SteadyClock::read()).count(), 0);
  return timespec{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
}

Result<void> wait_ready(int fd, Ready what, Deadline deadline) {
  deadline = fix_deadline(deadline);
  pollfd entry{
      .fd = fd, .events = static_cast<short>(what == Ready::kReadable ? POLLIN : POLLOUT), .revents = 0};
  for (;;) {
    const std::optional<timespec> left = time_left(deadline);
    const int count = ::ppoll(&entry, 1, left ? &*left : nullptr, nullptr);
    if (count > 0) break;
    if (count == 0) return fail(ErrorCode::kDeadlineExceeded, "wait for a descriptor", fd);
    if (errno != EINTR) return fail_errno("ppoll");
  }
  if ((entry.revents & POLLNVAL) != 0) return std::unexpected(Error::from_errno("ppoll", EBADF));
  return {};
}

}  // namespace yonder::os
