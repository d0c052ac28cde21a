#include "yonder/os/signal.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "yonder/os/mapping.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {
namespace {

Deadline in(Duration duration) { return Deadline::at(SteadyClock::read() + duration); }
Deadline later() { return in(std::chrono::seconds(30)); }

std::atomic<int> g_hook_calls{0};
std::atomic<int> g_plain_calls{0};
std::atomic<int> g_info_calls{0};
std::atomic<void*> g_page{nullptr};

bool wants_it(int, siginfo_t*, void*) noexcept { return ++g_hook_calls > 0; }
bool passes_on(int, siginfo_t*, void*) noexcept { return ++g_hook_calls < 0; }
void plain_handler(int) { ++g_plain_calls; }
void info_handler(int, siginfo_t* info, void*) { g_info_calls += info->si_pid == ::getpid() ? 1 : 1000; }

// Makes the page that faulted writable: what a fault service does.
bool serve_fault(int, siginfo_t* info, void*) noexcept {
  if (info->si_addr != g_page.load()) return false;
  return ::mprotect(info->si_addr, kPageBytes, PROT_READ | PROT_WRITE) == 0;
}

class SignalHookTest : public ::testing::Test {
 protected:
  void SetUp() override { g_hook_calls = g_plain_calls = g_info_calls = 0; }
  void TearDown() override { ::signal(SIGUSR1, SIG_DFL); }
};

TEST_F(SignalHookTest, IsAskedFirst) {
  ::signal(SIGUSR1, plain_handler);
  const SignalHook hook = SignalHook::install(SIGUSR1, wants_it).value();
  ::raise(SIGUSR1);
  EXPECT_EQ(g_hook_calls, 1);
  EXPECT_EQ(g_plain_calls, 0);
}

TEST_F(SignalHookTest, PassesOnToAPlainHandler) {
  ::signal(SIGUSR1, plain_handler);
  const SignalHook hook = SignalHook::install(SIGUSR1, passes_on).value();
  ::raise(SIGUSR1);
  EXPECT_EQ(g_hook_calls, 1);
  EXPECT_EQ(g_plain_calls, 1);
}

TEST_F(SignalHookTest, PassesOnToAHandlerThatWantsInformation) {
  struct sigaction action{};
  action.sa_sigaction = info_handler;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGUSR1, &action, nullptr);
  const SignalHook hook = SignalHook::install(SIGUSR1, passes_on).value();
  ::raise(SIGUSR1);
  EXPECT_EQ(g_info_calls, 1);
}

TEST_F(SignalHookTest, PassesOnToIgnoringAndToTheDefaultAction) {
  ::signal(SIGUSR1, SIG_IGN);
  {
    const SignalHook hook = SignalHook::install(SIGUSR1, passes_on).value();
    ::raise(SIGUSR1);
    EXPECT_EQ(g_hook_calls, 1);
  }
  Child child = Child::fork([] {
                  ::signal(SIGUSR1, SIG_DFL);
                  const auto hook = SignalHook::install(SIGUSR1, passes_on);
                  ::raise(SIGUSR1);
                  return 0;
                }).value();
  EXPECT_EQ(child.wait(later()).value().value, SIGUSR1);
}

TEST_F(SignalHookTest, PutsTheOldHandlerBack) {
  ::signal(SIGUSR1, plain_handler);
  {
    const SignalHook hook = SignalHook::install(SIGUSR1, wants_it).value();
  }
  ::raise(SIGUSR1);
  EXPECT_EQ(g_hook_calls, 0);
  EXPECT_EQ(g_plain_calls, 1);
}

TEST_F(SignalHookTest, StaysALinkOfAChainThatSomebodyElseBuiltOverIt) {
  ::signal(SIGUSR1, plain_handler);
  struct sigaction ours{};
  {
    const SignalHook hook = SignalHook::install(SIGUSR1, wants_it).value();
    ::sigaction(SIGUSR1, nullptr, &ours);
    ::signal(SIGUSR1, SIG_IGN);  // Somebody replaces us and remembers our handler.
  }
  ::sigaction(SIGUSR1, &ours, nullptr);  // They put it back after we have gone.
  ::raise(SIGUSR1);
  EXPECT_EQ(g_hook_calls, 0);
  EXPECT_EQ(g_plain_calls, 1);
  const SignalHook again = SignalHook::install(SIGUSR1, passes_on).value();
  ::raise(SIGUSR1);
  EXPECT_EQ(g_hook_calls, 1);
  EXPECT_EQ(g_plain_calls, 2);
}

TEST_F(SignalHookTest, ThereIsOnePerSignal) {
  const SignalHook hook = SignalHook::install(SIGUSR1, wants_it).value();
  EXPECT_EQ(SignalHook::install(SIGUSR1, wants_it).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(SignalHook::install(SIGKILL, wants_it).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SignalHook::install(0, wants_it).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SignalHook::install(1000, wants_it).error(), ErrorCode::kInvalidArgument);
}

TEST_F(SignalHookTest, ServesAFaultAndLeavesOthersFatal) {
  const Mapping page = Mapping::reserve({.bytes = kPageBytes}).value();
  g_page = page.data();
  const SignalHook hook = SignalHook::install(SIGSEGV, serve_fault).value();
  page.bytes()[0] = std::byte{1};
  EXPECT_EQ(page.bytes()[0], std::byte{1});
  const Mapping other = Mapping::reserve({.bytes = kPageBytes}).value();
  EXPECT_DEATH(other.bytes()[0] = std::byte{1}, "");
}

TEST(StopSignals, BecomesReadableWhenAStopIsWanted) {
  const StopSignals stop = StopSignals::create().value();
  EXPECT_EQ(stop.wait(in(std::chrono::milliseconds(2))).error(), ErrorCode::kDeadlineExceeded);
  ::raise(SIGTERM);
  EXPECT_EQ(stop.wait(later()).value(), SIGTERM);
  ::raise(SIGINT);
  EXPECT_EQ(stop.wait(later()).value(), SIGINT);
}

}  // namespace
}  // namespace yonder::os
