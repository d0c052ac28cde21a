// The program's handler of SIGBUS is called by ours for what is not far memory, and SIGBUS
// is never blocked: a fault while it is blocked would kill the process.
#include "apps/preload/signals.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <mutex>

#include "apps/preload/next.h"
#include "apps/preload/pins.h"
#include "apps/preload/runtime.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::preload {
namespace {

using SigactionCall = int (*)(int, const struct sigaction*, struct sigaction*);

SigactionCall next_sigaction() {
  static const auto found = next<SigactionCall>("sigaction");
  return found;
}

sync::SpinLock program_lock;
// SIG_DFL until the program says otherwise.
struct sigaction program_action YONDER_GUARDED_BY(program_lock);

struct sigaction program_handler() {
  const sync::SpinGuard guard(program_lock);
  return program_action;
}

// What the space does not serve comes here.
void relay(int signal, siginfo_t* info, void* context) {
  const struct sigaction action = program_handler();
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  if (action.sa_handler == SIG_IGN) return;
  if (action.sa_handler != SIG_DFL) return action.sa_handler(signal);
  // The access is repeated, and nobody is there any more to serve it.
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  next_sigaction()(signal, &plain, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

bool is_of_program(int signal) { return signal == SIGBUS && runtime() != nullptr; }

int set_program_action(const struct sigaction* action, struct sigaction* before) {
  // Copied outside the lock: both may be far.
  struct sigaction wanted{};
  if (action != nullptr) wanted = *action;
  struct sigaction old{};
  {
    const sync::SpinGuard guard(program_lock);
    old = program_action;
    if (action != nullptr) program_action = wanted;
  }
  if (before != nullptr) *before = old;
  return 0;
}

using MaskCall = int (*)(int, const sigset_t*, sigset_t*);

// The mask without SIGBUS, if it adds to what is blocked.
int change_mask(MaskCall call, int how, const sigset_t* set, sigset_t* before) {
  if (runtime() == nullptr || set == nullptr || how == SIG_UNBLOCK) {
    sigset_t old;
    const int result = call(how, set, before != nullptr ? &old : nullptr);
    if (before != nullptr) *before = old;
    return result;
  }
  sigset_t allowed = *set;
  ::sigdelset(&allowed, SIGBUS);
  sigset_t old;
  const int result = call(how, &allowed, before != nullptr ? &old : nullptr);
  if (before != nullptr) *before = old;
  return result;
}

}  // namespace

void take_bus_signal() {
  struct sigaction ours{};
  ours.sa_sigaction = &relay;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  struct sigaction before{};
  next_sigaction()(SIGBUS, &ours, &before);
  const sync::SpinGuard guard(program_lock);
  program_action = before;
}

}  // namespace yonder::preload

using yonder::preload::is_program;
using yonder::preload::next;

YONDER_INTERPOSE int sigaction(int signal, const struct sigaction* action,
                               struct sigaction* before) noexcept {
  if (!is_program(__builtin_return_address(0)) || yonder::preload::runtime() == nullptr) {
    return yonder::preload::next_sigaction()(signal, action, before);
  }
  if (yonder::preload::is_of_program(signal)) return yonder::preload::set_program_action(action, before);
  struct sigaction old{};
  struct sigaction wanted{};
  if (action != nullptr) {
    wanted = *action;
    ::sigdelset(&wanted.sa_mask, SIGBUS);
  }
  const int result = yonder::preload::next_sigaction()(signal, action != nullptr ? &wanted : nullptr,
                                                       before != nullptr ? &old : nullptr);
  if (result == 0 && before != nullptr) *before = old;
  return result;
}

YONDER_INTERPOSE sighandler_t signal(int signal, sighandler_t handler) noexcept {
  static const auto next_signal = next<sighandler_t (*)(int, sighandler_t)>("signal");
  if (!yonder::preload::is_of_program(signal)) return next_signal(signal, handler);
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = handler;
  yonder::preload::set_program_action(&action, &before);
  return before.sa_handler;
}

YONDER_INTERPOSE int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  static const auto next_mask = next<yonder::preload::MaskCall>("pthread_sigmask");
  if (!is_program(__builtin_return_address(0))) return next_mask(how, set, before);
  return yonder::preload::change_mask(next_mask, how, set, before);
}

YONDER_INTERPOSE int sigprocmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  static const auto next_mask = next<yonder::preload::MaskCall>("sigprocmask");
  if (!is_program(__builtin_return_address(0))) return next_mask(how, set, before);
  return yonder::preload::change_mask(next_mask, how, set, before);
}

// A signal's frame cannot be put into a page that is not there: such a stack stays.
YONDER_INTERPOSE int sigaltstack(const stack_t* stack, stack_t* before) noexcept {
  static const auto next_call = next<int (*)(const stack_t*, stack_t*)>("sigaltstack");
  stack_t wanted{};
  if (stack != nullptr) wanted = *stack;
  if (stack != nullptr && (wanted.ss_flags & SS_DISABLE) == 0 && yonder::preload::is_far(wanted.ss_sp)) {
    yonder::preload::pin_for_ever(wanted.ss_sp, wanted.ss_size);
  }
  stack_t old{};
  const int result = next_call(stack != nullptr ? &wanted : nullptr, before != nullptr ? &old : nullptr);
  if (result == 0 && before != nullptr) *before = old;
  return result;
}
