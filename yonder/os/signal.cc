#include "yonder/os/signal.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "yonder/os/wait.h"

namespace yonder::os {
namespace {

// The kernel calls a plain function with the signal's number, so what it needs
// must lie in a global: one slot per signal. `previous` is written only while
// the slot is claimed and our handler is not yet installed.
struct Slot {
  std::atomic<bool> claimed{false};
  std::atomic<SignalHook::Hook> hook{nullptr};
  std::atomic<bool> linked{false};  // Our handler is (perhaps) reachable and `previous` is valid.
  struct sigaction previous{};
};
std::array<Slot, NSIG> g_slots;

bool is_default(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

bool is_ignore(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

// The default action can be had only by giving up our handler. A fault then
// happens again when we return; a signal that was sent must be sent again.
void take_default_action(int signal, const siginfo_t* info) {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  const bool was_sent = info == nullptr || info->si_code <= 0;
  if (was_sent) ::raise(signal);
}

void pass_on(int signal, siginfo_t* info, void* context, const struct sigaction& previous) {
  if (is_ignore(previous)) return;
  if (is_default(previous)) return take_default_action(signal, info);
  sigset_t old_mask;
  ::pthread_sigmask(SIG_BLOCK, &previous.sa_mask, &old_mask);
  if ((previous.sa_flags & SA_SIGINFO) != 0)
    previous.sa_sigaction(signal, info, context);
  else
    previous.sa_handler(signal);
  ::pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
}

void dispatch(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const Slot& slot = g_slots[static_cast<std::size_t>(signal)];
  const SignalHook::Hook hook = slot.hook.load(std::memory_order_acquire);
  if (hook == nullptr || !hook(signal, info, context)) pass_on(signal, info, context, slot.previous);
  errno = saved_errno;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &dispatch;
}

// Makes `dispatch` the handler, remembering whom to pass on to. If it was left
// in place as a link of somebody's chain, it only has to be given its hook again.
bool link_handler(int signal, Slot& slot, const SignalHook::Options& options) {
  if (slot.linked.load(std::memory_order_relaxed)) return true;  // Only the claimant reads or writes it.
  struct sigaction ours{};
  ours.sa_sigaction = &dispatch;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | (options.allow_nested ? SA_NODEFER : 0);
  ::sigemptyset(&ours.sa_mask);
  if (options.block_others) ::sigfillset(&ours.sa_mask);
  // `previous` must be complete before the first signal can reach dispatch.
  if (::sigaction(signal, nullptr, &slot.previous) != 0 || ::sigaction(signal, &ours, nullptr) != 0)
    return false;
  slot.linked.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace

Result<SignalHook> SignalHook::install(int signal, Hook hook, Options options) {
  if (signal <= 0 || signal >= NSIG) return fail(ErrorCode::kInvalidArgument, "install signal hook", signal);
  Slot& slot = g_slots[static_cast<std::size_t>(signal)];
  if (slot.claimed.exchange(true)) return fail(ErrorCode::kAlreadyExists, "install signal hook", signal);
  // release: pairs with the acquire in dispatch(); what the hook relies on is there.
  slot.hook.store(hook, std::memory_order_release);
  if (!link_handler(signal, slot, options)) {
    slot.hook.store(nullptr);
    slot.claimed.store(false);
    return fail(ErrorCode::kInvalidArgument, "sigaction", errno);
  }
  return SignalHook(signal);
}

SignalHook::~SignalHook() {
  if (signal_ == 0) return;
  Slot& slot = g_slots[static_cast<std::size_t>(signal_)];
  slot.hook.store(nullptr);
  struct sigaction current{};
  ::sigaction(signal_, nullptr, &current);
  if (is_ours(current)) {
    ::sigaction(signal_, &slot.previous, nullptr);
    slot.linked.store(false, std::memory_order_relaxed);  // Published by the claim below.
  }
  slot.claimed.store(false);
}

Result<StopSignals> StopSignals::create() {
  sigset_t wanted;
  sigset_t old_mask;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGINT);
  ::sigaddset(&wanted, SIGTERM);
  Fd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return fail_errno("signalfd");
  ::pthread_sigmask(SIG_BLOCK, &wanted, &old_mask);
  return StopSignals(std::move(fd), old_mask);
}

StopSignals::~StopSignals() {
  if (fd_.valid()) ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

Result<int> StopSignals::wait(Deadline deadline) const {
  deadline = fix_deadline(deadline);
  for (;;) {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) == sizeof info) return static_cast<int>(info.ssi_signo);
    if (errno != EAGAIN && errno != EINTR) return fail_errno("read(signalfd)");
    YONDER_TRY_VOID(wait_ready(fd_.get(), Ready::kReadable, deadline));
  }
}

}  // namespace yonder::os
