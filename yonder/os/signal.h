#pragma once
// Signals: hooks that leave room for others, and an orderly stop.
//
// SignalHook installs a handler that is asked first and passes on what it does
// not want to whoever was there before (another library's handler, or the
// default action). Only the parts that need a signal install one: segments and
// the preload library take SIGBUS for faults they serve themselves.
//
// StopSignals turns SIGINT and SIGTERM into a descriptor, so that a server's
// main loop sees the wish to stop as one more event.
//
// Concurrency: install and uninstall from any thread; hooks run in whatever
// thread got the signal, and must be async-signal-safe.
// Lifetime: both undo their work in the destructor.

#include <signal.h>

#include <utility>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/fd.h"

namespace yonder::os {

class SignalHook {
 public:
  // True if the signal was meant for us and is dealt with.
  using Hook = bool (*)(int signal, siginfo_t* info, void* context) noexcept;

  struct Options {
    // Whether the hook may be interrupted by the same signal, as when a fault
    // service can itself fault.
    bool allow_nested = false;
    // Whether the other signals wait until the hook has returned: for a hook that holds
    // locks which a handler of the program could run into.
    bool block_others = false;
  };

  // One hook per signal and process at a time. Where somebody has installed over
  // an earlier hook of ours, this one takes its place in their chain: putting it
  // on top again could make the two handlers call each other for ever.
  // Errors: kInvalidArgument (no such signal, or one that cannot be caught),
  // kAlreadyExists (we have a hook for it).
  static Result<SignalHook> install(int signal, Hook hook, Options options);
  static Result<SignalHook> install(int signal, Hook hook) { return install(signal, hook, {}); }

  SignalHook(SignalHook&& other) noexcept : signal_(std::exchange(other.signal_, 0)) {}
  SignalHook& operator=(SignalHook&& other) = delete;
  // Puts the old handler back, unless somebody has installed over ours: then our
  // handler stays as a link of their chain that passes everything on.
  // No hook call may be under way in another thread that needs what the caller
  // destroys next.
  ~SignalHook();

 private:
  explicit SignalHook(int signal) : signal_(signal) {}
  int signal_;  // 0 after a move.
};

class StopSignals {
 public:
  // Blocks SIGINT and SIGTERM in this thread and those it makes afterwards: call
  // it first in main(). Errors: kResourceExhausted (descriptors).
  static Result<StopSignals> create();

  StopSignals(StopSignals&& other) noexcept = default;
  StopSignals& operator=(StopSignals&& other) = delete;
  // Unblocks what was not blocked before, in the calling thread.
  ~StopSignals();

  // Readable when a stop is wanted; for Epoll.
  const Fd& fd() const { return fd_; }
  // The signal that came. Errors: kDeadlineExceeded, kOsError.
  Result<int> wait(Deadline deadline) const;

 private:
  StopSignals(Fd fd, const sigset_t& old_mask) : fd_(std::move(fd)), old_mask_(old_mask) {}
  Fd fd_;
  sigset_t old_mask_;
};

}  // namespace yonder::os
