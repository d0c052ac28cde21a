// System calls that wait, and tell what they waited for in memory of the program.
//
// A condition variable or semaphore is a word that the kernel reads; if its page had left
// between the program's last look and the system call, the C library would take the
// kernel's EFAULT for a corrupt program and abort. So they stay while they are waited for.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/preload/next.h"
#include "apps/preload/pins.h"
#include "apps/preload/runtime.h"

namespace {

using yonder::preload::Access;
using yonder::preload::is_far;
using yonder::preload::next;
using yonder::preload::PinSet;

// Events are received on the stack and copied: the arrays of servers are large and almost
// all of each is never used, so that pinning them would be a waste.
template <typename Wait>
int receive_events(epoll_event* events, int most, Wait wait) {
  if (!is_far(events)) return wait(events, most);
  std::array<epoll_event, 128> received;
  const int count = wait(received.data(), std::min<int>(most, static_cast<int>(received.size())));
  if (count > 0) std::memcpy(events, received.data(), static_cast<std::size_t>(count) * sizeof(epoll_event));
  return count;
}

}  // namespace

YONDER_INTERPOSE int epoll_wait(int fd, epoll_event* events, int most, int timeout_ms) {
  static const auto call = next<decltype(&::epoll_wait)>("epoll_wait");
  return receive_events(events, most,
                        [&](epoll_event* into, int count) { return call(fd, into, count, timeout_ms); });
}

YONDER_INTERPOSE int epoll_pwait(int fd, epoll_event* events, int most, int timeout_ms,
                                 const sigset_t* mask) {
  static const auto call = next<decltype(&::epoll_pwait)>("epoll_pwait");
  const PinSet pin(mask, sizeof(sigset_t), Access::kRead);
  return receive_events(
      events, most, [&](epoll_event* into, int count) { return call(fd, into, count, timeout_ms, mask); });
}

YONDER_INTERPOSE int epoll_ctl(int fd, int operation, int of, epoll_event* event) noexcept {
  static const auto call = next<decltype(&::epoll_ctl)>("epoll_ctl");
  const PinSet pin(event, sizeof(epoll_event), Access::kRead);
  return call(fd, operation, of, event);
}

YONDER_INTERPOSE int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  static const auto call = next<decltype(&::poll)>("poll");
  const PinSet pin(fds, count * sizeof(pollfd), Access::kWrite);
  return call(fds, count, timeout_ms);
}

YONDER_INTERPOSE int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  static const auto call = next<decltype(&::ppoll)>("ppoll");
  PinSet pins(fds, count * sizeof(pollfd), Access::kWrite);
  pins.add(timeout, sizeof(timespec), Access::kRead);
  pins.add(mask, sizeof(sigset_t), Access::kRead);
  return call(fds, count, timeout, mask);
}

YONDER_INTERPOSE int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                            timeval* timeout) {
  static const auto call = next<decltype(&::select)>("select");
  const std::size_t bytes = (static_cast<std::size_t>(std::max(count, 0)) + 63) / 64 * 8;
  PinSet pins(readable, bytes, Access::kWrite);
  pins.add(writable, bytes, Access::kWrite);
  pins.add(exceptional, bytes, Access::kWrite);
  pins.add_out(timeout);
  return call(count, readable, writable, exceptional, timeout);
}

YONDER_INTERPOSE int accept(int fd, sockaddr* from, socklen_t* length) {
  static const auto call = next<int (*)(int, sockaddr*, socklen_t*)>("accept");
  PinSet pins(from, length != nullptr ? *length : 0, Access::kWrite);
  pins.add_out(length);
  return call(fd, from, length);
}

YONDER_INTERPOSE int accept4(int fd, sockaddr* from, socklen_t* length, int flags) {
  static const auto call = next<int (*)(int, sockaddr*, socklen_t*, int)>("accept4");
  PinSet pins(from, length != nullptr ? *length : 0, Access::kWrite);
  pins.add_out(length);
  return call(fd, from, length, flags);
}

YONDER_INTERPOSE int connect(int fd, const sockaddr* to, socklen_t length) {
  static const auto call = next<int (*)(int, const sockaddr*, socklen_t)>("connect");
  const PinSet pin(to, length, Access::kRead);
  return call(fd, to, length);
}

YONDER_INTERPOSE int bind(int fd, const sockaddr* at, socklen_t length) noexcept {
  static const auto call = next<int (*)(int, const sockaddr*, socklen_t)>("bind");
  const PinSet pin(at, length, Access::kRead);
  return call(fd, at, length);
}

// ---------------------------------------------------------------- condition variables

// The version that has the present layout; the first one has none of it.
#define YONDER_COND_VERSION "GLIBC_2.3.2"

YONDER_INTERPOSE int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static const auto call = next<decltype(&::pthread_cond_wait)>("pthread_cond_wait", YONDER_COND_VERSION);
  PinSet pins(condition, sizeof *condition, Access::kWrite);
  pins.add(mutex, sizeof *mutex, Access::kWrite);
  return call(condition, mutex);
}

YONDER_INTERPOSE int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                            const timespec* until) {
  static const auto call =
      next<decltype(&::pthread_cond_timedwait)>("pthread_cond_timedwait", YONDER_COND_VERSION);
  const timespec copy = *until;
  PinSet pins(condition, sizeof *condition, Access::kWrite);
  pins.add(mutex, sizeof *mutex, Access::kWrite);
  return call(condition, mutex, &copy);
}

YONDER_INTERPOSE int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                            clockid_t clock, const timespec* until) {
  static const auto call = next<decltype(&::pthread_cond_clockwait)>("pthread_cond_clockwait");
  const timespec copy = *until;
  PinSet pins(condition, sizeof *condition, Access::kWrite);
  pins.add(mutex, sizeof *mutex, Access::kWrite);
  return call(condition, mutex, clock, &copy);
}

YONDER_INTERPOSE int sem_wait(sem_t* semaphore) {
  static const auto call = next<decltype(&::sem_wait)>("sem_wait");
  const PinSet pin(semaphore, sizeof *semaphore, Access::kWrite);
  return call(semaphore);
}

YONDER_INTERPOSE int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static const auto call = next<decltype(&::sem_timedwait)>("sem_timedwait");
  const timespec copy = *until;
  const PinSet pin(semaphore, sizeof *semaphore, Access::kWrite);
  return call(semaphore, &copy);
}
