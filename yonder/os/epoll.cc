#include "yonder/os/epoll.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "yonder/os/wait.h"

namespace yonder::os {
namespace {

struct BitName {
  std::uint32_t ours;
  std::uint32_t kernel;
};
constexpr BitName kBits[] = {
    {kEpollReadable, EPOLLIN}, {kEpollWritable, EPOLLOUT}, {kEpollPeerClosed, EPOLLRDHUP},
    {kEpollEdge, EPOLLET},     {kEpollError, EPOLLERR},    {kEpollHangUp, EPOLLHUP},
};

std::uint32_t to_kernel(std::uint32_t bits) {
  std::uint32_t kernel = 0;
  for (const BitName& bit : kBits) kernel |= (bits & bit.ours) != 0 ? bit.kernel : 0;
  return kernel;
}

std::uint32_t from_kernel(std::uint32_t kernel) {
  std::uint32_t bits = 0;
  for (const BitName& bit : kBits) bits |= (kernel & bit.kernel) != 0 ? bit.ours : 0;
  return bits;
}

Result<void> control(const Fd& epoll, int operation, const Fd& fd, std::uint32_t bits, std::uint64_t token) {
  epoll_event event{};
  event.events = to_kernel(bits);
  event.data.u64 = token;
  if (::epoll_ctl(epoll.get(), operation, fd.get(), &event) != 0) return fail_errno("epoll_ctl");
  return {};
}

}  // namespace

Result<Epoll> Epoll::create() {
  Fd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd.valid()) return fail_errno("epoll_create1");
  return Epoll(std::move(fd));
}

Result<void> Epoll::add(const Fd& fd, std::uint32_t bits, std::uint64_t token) const {
  return control(fd_, EPOLL_CTL_ADD, fd, bits, token);
}

Result<void> Epoll::modify(const Fd& fd, std::uint32_t bits, std::uint64_t token) const {
  return control(fd_, EPOLL_CTL_MOD, fd, bits, token);
}

Result<void> Epoll::remove(const Fd& fd) const { return control(fd_, EPOLL_CTL_DEL, fd, 0, 0); }

Result<std::span<EpollEvent>> Epoll::wait(std::span<EpollEvent> events, Deadline deadline) const {
  deadline = fix_deadline(deadline);
  std::array<epoll_event, kMaxEvents> raw;
  const int room = static_cast<int>(std::min(events.size(), raw.size()));
  for (;;) {
    const std::optional<timespec> left = time_left(deadline);
    const int count = ::epoll_pwait2(fd_.get(), raw.data(), room, left ? &*left : nullptr, nullptr);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("epoll_pwait2");
    for (int i = 0; i < count; ++i)
      events[static_cast<std::size_t>(i)] = {.token = raw[static_cast<std::size_t>(i)].data.u64,
                                             .bits = from_kernel(raw[static_cast<std::size_t>(i)].events)};
    return events.first(static_cast<std::size_t>(count));
  }
}

}  // namespace yonder::os
