#include "yonder/os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "yonder/os/wait.h"

namespace yonder::os {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the kernel sees the bare word");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

int private_bit(FutexScope scope) { return scope == FutexScope::kPrivate ? FUTEX_PRIVATE_FLAG : 0; }

timespec absolute(Deadline deadline) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {.tv_sec = deadline.instant().ns() / kSecond, .tv_nsec = deadline.instant().ns() % kSecond};
}

}  // namespace

Result<void> futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, FutexScope scope,
                        Deadline deadline) {
  deadline = fix_deadline(deadline);
  const timespec until = absolute(deadline);
  // The BITSET form is the one whose timeout is absolute, and of CLOCK_MONOTONIC.
  const int operation = FUTEX_WAIT_BITSET | private_bit(scope);
  const long result =
      ::syscall(SYS_futex, &word, operation, expected, deadline == Deadline::never() ? nullptr : &until,
                nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result == 0 || errno == EAGAIN || errno == EINTR) return {};
  if (errno == ETIMEDOUT) return fail(ErrorCode::kDeadlineExceeded, "futex wait");
  return fail_errno("futex(WAIT)");
}

int futex_wake(const std::atomic<std::uint32_t>& word, int count, FutexScope scope) {
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE | private_bit(scope), count, nullptr, nullptr, 0);
  return woken < 0 ? 0 : static_cast<int>(woken);
}

}  // namespace yonder::os
