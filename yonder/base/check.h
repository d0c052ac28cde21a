#pragma once
// Checks against our own bugs.
//
// YONDER_CHECK is always on: it prints the condition, the place and a message,
// runs the hook if one is set, and aborts. YONDER_DCHECK is for hot paths and
// vanishes in Release. Never check what a peer, a user or a disk can cause:
// that is a Result.
//
// Concurrency: any thread. The first failing thread reports; others wait for
// the abort.

namespace yonder {

// Called once before the abort, to dump state (the trace ring uses it). It must
// be async-signal-tolerant: no locks it may already hold. Returns the old hook.
using CheckHook = void (*)();
CheckHook set_check_hook(CheckHook hook);

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* message);

}  // namespace yonder

#define YONDER_CHECK(condition, message)                               \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::yonder::check_failed(#condition, __FILE__, __LINE__, message); \
  } while (false)

#ifdef NDEBUG
#define YONDER_DCHECK(condition, message) \
  do {                                    \
  } while (false)
#else
#define YONDER_DCHECK(condition, message) YONDER_CHECK(condition, message)
#endif
