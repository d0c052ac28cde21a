// syscall(2): system calls that a program makes by their number.
//
// Those that have a function of ours go there. Of all others we do not know which
// arguments are addresses, nor how much lies there: what looks like far memory is pinned
// for as long as anything of a fixed size, or a name, can be. Calls of our own library are
// left alone: the far heap knows what it does to its pages.
//
// A futex needs no pin, and must not have one, because waits may be long and many: the kernel
// reads the word once, when the wait begins, and knows waiters by their address. So the page
// is brought and the call made again if it had left in between.
//
// Concurrency: any thread, also in signal handlers.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "apps/preload/next.h"
#include "apps/preload/pins.h"
#include "apps/preload/runtime.h"

#if defined(__x86_64__)

namespace {

using yonder::preload::Access;
using yonder::preload::is_far;
using yonder::preload::is_program;
using yonder::preload::PinSet;
using yonder::preload::runtime;

using Arguments = std::array<long, 6>;

// The longest thing of a size that the kernel knows: a name.
constexpr std::size_t kUnknownBytes = 4096;
// A page that has just been touched leaves before the call once in a blue moon.
constexpr int kFutexAttempts = 1000;

template <typename T>
T* address(long argument) {
  return reinterpret_cast<T*>(argument);
}

// By hand: to look for the C library's would allocate, and what allocates may come by here.
long trap(long number, const Arguments& a) {
  long result = 0;
  register long r10 __asm__("r10") = a[3];
  register long r8 __asm__("r8") = a[4];
  register long r9 __asm__("r9") = a[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

long as_function(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

void touch(long argument) {
  if (is_far(address<void>(argument))) (void)__atomic_load_n(address<char>(argument), __ATOMIC_RELAXED);
}

// Only commands that wait until a time have an address there.
bool has_timeout(long command) {
  const long bare = command & FUTEX_CMD_MASK;
  return bare == FUTEX_WAIT || bare == FUTEX_WAIT_BITSET || bare == FUTEX_LOCK_PI || bare == FUTEX_LOCK_PI2 ||
         bare == FUTEX_WAIT_REQUEUE_PI;
}

long futex(Arguments a) {
  timespec timeout;
  if (has_timeout(a[1]) && is_far(address<void>(a[3]))) {
    timeout = *address<timespec>(a[3]);
    a[3] = reinterpret_cast<long>(&timeout);
  }
  for (int attempt = 1;; ++attempt) {
    const long result = trap(SYS_futex, a);
    const bool may_be_ours = is_far(address<void>(a[0])) || is_far(address<void>(a[4]));
    if (result != -EFAULT || !may_be_ours || attempt == kFutexAttempts) return as_function(result);
    touch(a[0]);
    touch(a[4]);
  }
}

long unknown(long number, const Arguments& a) {
  PinSet pins;
  for (const long argument : a) {
    if (!is_far(address<void>(argument))) continue;
    const std::span<std::byte> space = runtime()->space->memory();
    const auto left = static_cast<std::size_t>(space.data() + space.size() - address<std::byte>(argument));
    pins.add(address<void>(argument), std::min(left, kUnknownBytes), Access::kWrite);
  }
  return as_function(trap(number, a));
}

// Calls of memory: ours if they are about far memory.
long memory_call(long number, const Arguments& a) {
  void* const at = address<void>(a[0]);
  const auto bytes = static_cast<std::size_t>(a[1]);
  if (!is_far(at)) return as_function(trap(number, a));
  if (number == SYS_munmap) return ::munmap(at, bytes);
  if (number == SYS_mprotect) return ::mprotect(at, bytes, static_cast<int>(a[2]));
  if (number == SYS_madvise) return ::madvise(at, bytes, static_cast<int>(a[2]));
  return reinterpret_cast<long>(
      ::mremap(at, bytes, static_cast<std::size_t>(a[2]), static_cast<int>(a[3]), address<void>(a[4])));
}

long transfer(long number, const Arguments& a) {
  const int fd = static_cast<int>(a[0]);
  const auto bytes = static_cast<std::size_t>(a[2]);
  const int third = static_cast<int>(a[2]);
  const int flags = static_cast<int>(a[3]);
  switch (number) {
    case SYS_read:
      return ::read(fd, address<void>(a[1]), bytes);
    case SYS_write:
      return ::write(fd, address<void>(a[1]), bytes);
    case SYS_pread64:
      return ::pread(fd, address<void>(a[1]), bytes, a[3]);
    case SYS_pwrite64:
      return ::pwrite(fd, address<void>(a[1]), bytes, a[3]);
    case SYS_readv:
      return ::readv(fd, address<iovec>(a[1]), third);
    case SYS_writev:
      return ::writev(fd, address<iovec>(a[1]), third);
    case SYS_recvfrom:
      return ::recvfrom(fd, address<void>(a[1]), bytes, flags, address<sockaddr>(a[4]),
                        address<socklen_t>(a[5]));
    case SYS_sendto:
      return ::sendto(fd, address<void>(a[1]), bytes, flags, address<sockaddr>(a[4]),
                      static_cast<socklen_t>(a[5]));
    case SYS_recvmsg:
      return ::recvmsg(fd, address<msghdr>(a[1]), third);
    case SYS_sendmsg:
      return ::sendmsg(fd, address<msghdr>(a[1]), third);
    case SYS_getrandom:
      return ::getrandom(address<void>(a[0]), static_cast<std::size_t>(a[1]), static_cast<unsigned>(a[2]));
    case SYS_poll:
      return ::poll(address<pollfd>(a[0]), static_cast<nfds_t>(a[1]), third);
    default:
      return ::epoll_wait(fd, address<epoll_event>(a[1]), third, flags);
  }
}

long dispatch(long number, const Arguments& arguments) {
  switch (number) {
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_recvfrom:
    case SYS_sendto:
    case SYS_recvmsg:
    case SYS_sendmsg:
    case SYS_getrandom:
    case SYS_poll:
    case SYS_epoll_wait:
      return transfer(number, arguments);
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_madvise:
    case SYS_mremap:
      return memory_call(number, arguments);
    case SYS_futex:
      return futex(arguments);
    default:
      return unknown(number, arguments);
  }
}

}  // namespace

YONDER_INTERPOSE long syscall(long number, ...) noexcept {
  const void* const caller = __builtin_return_address(0);
  Arguments arguments;
  std::va_list rest;
  va_start(rest, number);
  // As the C library's: as many as there can be, whether they were given or not.
  for (long& argument : arguments) argument = va_arg(rest, long);
  va_end(rest);
  if (runtime() == nullptr || !is_program(caller)) return as_function(trap(number, arguments));
  return dispatch(number, arguments);
}

#endif
