#include "yonder/os/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace yonder::os {

Result<Fd> Fd::open(const char* path, int flags) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open has no other form.
  Fd fd(::open(path, flags | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno("open");
  return fd;
}

void Fd::reset(int raw) {
  // close() releases the descriptor even when it reports an error, so there is
  // nothing to retry: a second close could hit a descriptor of another thread.
  if (raw_ >= 0) ::close(raw_);
  raw_ = raw;
}

Result<Fd> Fd::duplicate() const {
  Fd copy(::fcntl(raw_, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
  return copy;
}

Result<Fd> Fd::reopen_read_only() const {
  std::array<char, 32> path{};  // "/proc/self/fd/" (14) + 10 digits + NUL
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", raw_);
  return open(path.data(), O_RDONLY);
}

Result<void> Fd::set_nonblocking(bool on) const {
  const int old_flags = ::fcntl(raw_, F_GETFL);
  if (old_flags < 0) return fail_errno("fcntl(F_GETFL)");
  const int new_flags = on ? old_flags | O_NONBLOCK : old_flags & ~O_NONBLOCK;
  if (::fcntl(raw_, F_SETFL, new_flags) < 0) return fail_errno("fcntl(F_SETFL)");
  return {};
}

}  // namespace yonder::os
