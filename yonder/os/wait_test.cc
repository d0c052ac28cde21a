#include "yonder/os/wait.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <thread>

#include "yonder/os/epoll.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Deadline in(Duration duration) { return Deadline::at(SteadyClock::read() + duration); }
Deadline soon() { return in(milliseconds(5)); }

TEST(SteadyClock, NeverGoesBackAndIsAClock) {
  const SteadyClock clock;
  Instant last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(TimeLeft, IsZeroAfterTheDeadlineAndAbsentForNever) {
  const auto passed = time_left(Deadline::at(Instant::from_ns(1)));
  EXPECT_EQ(passed->tv_sec + passed->tv_nsec, 0);
  EXPECT_FALSE(time_left(Deadline::never()).has_value());
  EXPECT_GE(time_left(in(seconds(100)))->tv_sec, 90);
  EXPECT_FALSE(fix_deadline({}).is_default());
}

TEST(WaitReady, EndsAtTheDeadline) {
  const EventFd event = EventFd::create().value();
  const Instant start = SteadyClock::read();
  EXPECT_EQ(wait_ready(event.fd().get(), Ready::kReadable, soon()).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_GE(SteadyClock::read() - start, milliseconds(5));
  EXPECT_TRUE(wait_ready(event.fd().get(), Ready::kWritable, soon()));
}

TEST(WaitReady, TellsAClosedDescriptorFromASlowOne) {
  EXPECT_EQ(wait_ready(9999, Ready::kReadable, soon()).error().detail(), EBADF);
}

TEST(EventFd, RingsAddUpUntilTaken) {
  const EventFd event = EventFd::create().value();
  EXPECT_EQ(event.take(), 0u);
  event.ring();
  event.ring();
  EXPECT_EQ(event.wait(soon()).value(), 2u);
  EXPECT_EQ(event.wait(soon()).error(), ErrorCode::kDeadlineExceeded);
}

TEST(EventFd, WakesASleepingThread) {
  const EventFd event = EventFd::create().value();
  std::thread waker([&] { event.ring(); });
  EXPECT_EQ(event.wait(in(seconds(30))).value(), 1u);
  waker.join();
}

TEST(Epoll, ReportsTheTokenOfWhatIsReady) {
  const Epoll epoll = Epoll::create().value();
  const EventFd quiet = EventFd::create().value();
  const EventFd busy = EventFd::create().value();
  ASSERT_TRUE(epoll.add(quiet.fd(), kEpollReadable, 1));
  ASSERT_TRUE(epoll.add(busy.fd(), kEpollReadable, 2));
  busy.ring();
  std::array<EpollEvent, 8> room{};
  const auto events = epoll.wait(room, in(seconds(30))).value();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].token, 2u);
  EXPECT_EQ(events[0].bits, kEpollReadable);
}

TEST(Epoll, APassedDeadlineMakesTheWaitAPoll) {
  const Epoll epoll = Epoll::create().value();
  std::array<EpollEvent, 8> room{};
  EXPECT_TRUE(epoll.wait(room, Deadline::at(Instant::from_ns(1))).value().empty());
}

TEST(Epoll, ModifyAndRemoveTakeEffect) {
  const Epoll epoll = Epoll::create().value();
  const EventFd event = EventFd::create().value();
  event.ring();
  ASSERT_TRUE(epoll.add(event.fd(), kEpollWritable, 1));
  ASSERT_TRUE(epoll.modify(event.fd(), kEpollReadable, 7));
  std::array<EpollEvent, 8> room{};
  EXPECT_EQ(epoll.wait(room, soon()).value()[0].token, 7u);
  ASSERT_TRUE(epoll.remove(event.fd()));
  EXPECT_TRUE(epoll.wait(room, soon()).value().empty());
}

TEST(Epoll, EdgeTriggeredEventsComeOnce) {
  const Epoll epoll = Epoll::create().value();
  const EventFd event = EventFd::create().value();
  ASSERT_TRUE(epoll.add(event.fd(), kEpollReadable | kEpollEdge, 1));
  event.ring();
  std::array<EpollEvent, 8> room{};
  EXPECT_EQ(epoll.wait(room, soon()).value().size(), 1u);
  EXPECT_TRUE(epoll.wait(room, soon()).value().empty());
}

TEST(Epoll, SeesThatAPeerIsGone) {
  const Epoll epoll = Epoll::create().value();
  auto [ours, theirs] = Socket::pair(SocketKind::kStream).value();
  ASSERT_TRUE(epoll.add(ours.fd(), kEpollPeerClosed, 1));
  theirs = Socket();
  std::array<EpollEvent, 8> room{};
  const auto events = epoll.wait(room, in(seconds(30))).value();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].bits & kEpollPeerClosed, 0u);
  EXPECT_NE(events[0].bits & kEpollHangUp, 0u);
}

TEST(Epoll, RefusesWhatItCannotWatch) {
  const Epoll epoll = Epoll::create().value();
  const EventFd event = EventFd::create().value();
  ASSERT_TRUE(epoll.add(event.fd(), kEpollReadable, 1));
  EXPECT_EQ(epoll.add(event.fd(), kEpollReadable, 1).error(), ErrorCode::kAlreadyExists);
  const EventFd stranger = EventFd::create().value();
  EXPECT_EQ(epoll.modify(stranger.fd(), kEpollReadable, 1).error(), ErrorCode::kNotFound);
  EXPECT_EQ(epoll.remove(stranger.fd()).error(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace yonder::os
