#pragma once
// Child: a process we started; and what a process costs.
//
// A child is never left behind: the destructor kills it and takes its status, so
// that a failing test or tool leaves no stray server and no zombie.
//
// Concurrency: one thread per Child. usage_of() from any thread.
// Lifetime: move-only.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/fd.h"

namespace yonder::os {

struct ExitStatus {
  bool signalled;  // Killed by a signal rather than by its own exit.
  int value;       // The signal, or the exit code.
  bool success() const { return !signalled && value == 0; }
};

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH.
  // "NAME=value" entries, in place of those that we have.
  std::vector<std::string> extra_environment;
  // Descriptors the child gets as 0, 1, 2; -1 keeps ours. It gets no others of
  // ours, because all of them are close-on-exec.
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
};

class Child {
 public:
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  // The child starts with no signal blocked, whatever we block (StopSignals does).
  // Errors: kInvalidArgument (no argv), kNotFound (no such program),
  // kPermissionDenied, kResourceExhausted / kOutOfMemory.
  static Result<Child> spawn(const SpawnOptions& options);
  // Runs `body` in a forked copy of this process, which ends with its result.
  // If this process has other threads, `body` may call only async-signal-safe
  // functions: locks those threads held stay locked in the copy.
  static Result<Child> fork(const std::function<int()>& body);

  pid_t pid() const { return pid_; }
  // Becomes readable when the child ends; for Epoll.
  const Fd& pidfd() const { return pidfd_; }

  // Waits for the end; repeated calls return the same status.
  // Errors: kDeadlineExceeded.
  Result<ExitStatus> wait(Deadline deadline);
  // Sends a signal; a child that ended already is no error (and its pid cannot
  // be hit by mistake: the pidfd stands for this child only).
  Result<void> kill(int signal) const;

 private:
  Child(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  static Result<Child> attach(pid_t pid);
  void destroy();

  pid_t pid_;
  Fd pidfd_;
  std::optional<ExitStatus> status_;
};

struct ProcessUsage {
  std::uint64_t rss_bytes;  // Resident memory, shared pages included.
  Duration cpu_time;        // User and system time of all its threads so far.
};
// Errors: kNotFound (no such process), kPermissionDenied, kCorrupt (/proc is not as expected).
Result<ProcessUsage> usage_of(pid_t pid);

}  // namespace yonder::os
