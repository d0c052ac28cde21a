#include "yonder/os/eventfd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "yonder/os/wait.h"

namespace yonder::os {

Result<EventFd> EventFd::create() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return fail_errno("eventfd");
  return EventFd(std::move(fd));
}

void EventFd::ring() const {
  const std::uint64_t one = 1;
  // The only failure of a valid eventfd is EAGAIN at a full counter: readable already.
  [[maybe_unused]] const ssize_t n = ::write(fd_.get(), &one, sizeof one);
}

std::uint64_t EventFd::take() const {
  std::uint64_t rings = 0;
  return ::read(fd_.get(), &rings, sizeof rings) == sizeof rings ? rings : 0;
}

Result<std::uint64_t> EventFd::wait(Deadline deadline) const {
  deadline = fix_deadline(deadline);
  for (;;) {
    if (const std::uint64_t rings = take(); rings != 0) return rings;
    YONDER_TRY_VOID(wait_ready(fd_.get(), Ready::kReadable, deadline));
  }
}

}  // namespace yonder::os
