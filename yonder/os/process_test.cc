#include "yonder/os/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "yonder/os/epoll.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/fd_passing.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/signal.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {
namespace {

Deadline in(Duration duration) { return Deadline::at(SteadyClock::read() + duration); }
Deadline later() { return in(std::chrono::seconds(30)); }

std::string output_of(SpawnOptions options) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  options.stdout_fd = writer.get();
  Child child = Child::spawn(options).value();
  writer.reset();
  std::array<char, 4096> text{};
  std::string all;
  for (ssize_t n = 0; (n = ::read(reader.get(), text.data(), text.size())) > 0;)
    all.append(text.data(), static_cast<std::size_t>(n));
  EXPECT_TRUE(child.wait(later()).value().success());
  return all;
}

TEST(Child, RunsAProgramAndTakesItsExitCode) {
  Child child = Child::spawn({.argv = {"sh", "-c", "exit 7"}}).value();
  EXPECT_EQ(child.wait(later()).value().value, 7);
  EXPECT_FALSE(child.wait(later()).value().signalled);
}

TEST(Child, GetsArgumentsEnvironmentAndRedirections) {
  EXPECT_EQ(
      output_of({.argv = {"sh", "-c", "echo $YONDER_X-$0", "arg"}, .extra_environment = {"YONDER_X=far"}}),
      "far-arg\n");
  ::setenv("YONDER_X", "ours", 1);
  EXPECT_EQ(output_of({.argv = {"sh", "-c", "echo $YONDER_X"}}), "ours\n");
  EXPECT_EQ(output_of({.argv = {"sh", "-c", "echo $YONDER_X"}, .extra_environment = {"YONDER_X=new"}}),
            "new\n");
}

TEST(Child, SaysThatAProgramDoesNotExist) {
  EXPECT_EQ(Child::spawn({.argv = {"/nonexistent/program"}}).error(), ErrorCode::kNotFound);
  EXPECT_EQ(Child::spawn({}).error(), ErrorCode::kInvalidArgument);
}

TEST(Child, WaitEndsAtItsDeadlineAndKillIsReported) {
  Child child = Child::spawn({.argv = {"sleep", "1000"}}).value();
  EXPECT_EQ(child.wait(in(std::chrono::milliseconds(2))).error(), ErrorCode::kDeadlineExceeded);
  ASSERT_TRUE(child.kill(SIGTERM));
  const ExitStatus status = child.wait(later()).value();
  EXPECT_TRUE(status.signalled);
  EXPECT_EQ(status.value, SIGTERM);
  EXPECT_TRUE(child.kill(SIGTERM));  // Already gone: no error.
}

TEST(Child, HearsSignalsThatWeBlock) {
  const StopSignals stop = StopSignals::create().value();
  Child child = Child::spawn({.argv = {"sleep", "1000"}}).value();
  ASSERT_TRUE(child.kill(SIGTERM));
  EXPECT_EQ(child.wait(later()).value().value, SIGTERM);
}

TEST(Child, IsNotLeftBehind) {
  pid_t pid = -1;
  {
    const Child child = Child::spawn({.argv = {"sleep", "1000"}}).value();
    pid = child.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(Child, MovingKeepsOneOwner) {
  Child first = Child::fork([] { return 3; }).value();
  Child second = std::move(first);
  EXPECT_EQ(second.wait(later()).value().value, 3);
  second = Child::fork([] { return 4; }).value();
  EXPECT_EQ(second.wait(later()).value().value, 4);
}

TEST(Usage, CountsMemoryAndCpuTime) {
  const ProcessUsage before = usage_of(::getpid()).value();
  const Mapping memory = Mapping::anonymous({.bytes = 64 << 20, .populate = true}).value();
  const ProcessUsage after = usage_of(::getpid()).value();
  EXPECT_GE(after.rss_bytes, before.rss_bytes + (60 << 20));
  EXPECT_GT(after.cpu_time, before.cpu_time);
}

TEST(Usage, KnowsThatAProcessIsGone) {
  Child child = Child::fork([] { return 0; }).value();
  ASSERT_TRUE(child.wait(later()));
  EXPECT_EQ(usage_of(child.pid()).error(), ErrorCode::kNotFound);
}

// The limits are set in a forked child: they cannot be raised again.
template <typename Body>
ExitStatus run_limited(int resource, rlim_t limit, Body body) {
  Child child = Child::fork([&] {
                  const rlimit raw{.rlim_cur = limit, .rlim_max = limit};
                  return ::setrlimit(static_cast<__rlimit_resource>(resource), &raw) == 0 && body() ? 0 : 1;
                }).value();
  return child.wait(later()).value();
}

template <typename T>
bool failed_with(const Result<T>& result, ErrorCode code) {
  return !result && result.error() == code;
}

TEST(Limits, NoDescriptorLeftIsATypedErrorEverywhere) {
  const Memfd memfd = Memfd::create({.size = kPageBytes}).value();
  const SocketAddress name = SocketAddress::unix_name("@yonder-limits-" + std::to_string(::getpid())).value();
  const ExitStatus status = run_limited(RLIMIT_NOFILE, 0, [&] {
    constexpr ErrorCode kFull = ErrorCode::kResourceExhausted;
    return failed_with(Fd::open("/dev/null", O_RDONLY), kFull) &&
           failed_with(memfd.fd().reopen_read_only(), kFull) &&
           failed_with(Memfd::create({.size = kPageBytes}), kFull) && failed_with(EventFd::create(), kFull) &&
           failed_with(Epoll::create(), kFull) && failed_with(Socket::pair(SocketKind::kStream), kFull) &&
           failed_with(Socket::listen(name, {}), kFull) && failed_with(Socket::connect(name, {}, {}), kFull);
  });
  EXPECT_TRUE(status.success());
}

TEST(Limits, AcceptWithoutDescriptorsLeavesTheClientWaiting) {
  const SocketAddress name = SocketAddress::unix_name("@yonder-accept-" + std::to_string(::getpid())).value();
  const Socket listener = Socket::listen(name, {}).value();
  const Socket client = Socket::connect(name, {}, later()).value();
  EXPECT_TRUE(run_limited(RLIMIT_NOFILE, 0, [&] {
                return failed_with(listener.accept(later()), ErrorCode::kResourceExhausted);
              }).success());
  EXPECT_TRUE(listener.accept(later()).has_value());
}

TEST(Limits, PassedDescriptorsThatDoNotFitAreATypedError) {
  const auto [a, b] = Socket::pair(SocketKind::kSeqpacket).value();
  const std::byte one{1};
  ASSERT_TRUE(send_with_fds(a, std::span(&one, 1), std::array{a.fd().get(), b.fd().get()}, later()));
  EXPECT_TRUE(run_limited(RLIMIT_NOFILE, 0, [&] {
                std::array<std::byte, 8> buffer{};
                return failed_with(receive_with_fds(b, buffer, 2, later()), ErrorCode::kResourceExhausted);
              }).success());
}

TEST(Limits, NoMemoryIsATypedError) {
  // The sanitizers reserve terabytes, so the limit is on data, not on address
  // space; private writable memory counts as data.
  EXPECT_TRUE(run_limited(RLIMIT_DATA, 1 << 20, [] {
                return failed_with(Mapping::anonymous({.bytes = 64 << 20}), ErrorCode::kOutOfMemory);
              }).success());
}

}  // namespace
}  // namespace yonder::os
