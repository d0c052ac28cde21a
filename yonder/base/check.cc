#include "yonder/base/check.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace yonder {
namespace {

// The one mutable global of base: a crash hook has nowhere else to live.
std::atomic<CheckHook> g_hook{nullptr};
std::atomic<bool> g_failing{false};

}  // namespace

CheckHook set_check_hook(CheckHook hook) { return g_hook.exchange(hook); }

void check_failed(const char* condition, const char* file, int line, const char* message) {
  if (g_failing.exchange(true)) {
    for (;;) ::pause();  // Another thread reports and aborts for all of us.
  }
  std::fprintf(stderr, "yonder: check failed: %s (%s) at %s:%d\n", message, condition, file, line);
  if (CheckHook hook = g_hook.load(); hook != nullptr) hook();
  std::abort();
}

}  // namespace yonder
