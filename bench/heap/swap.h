#pragma once
// The kernel's own far memory: a swap device in RAM, and a group of processes that may keep only
// so much in memory.
//
// Needs root, cgroup v1 and zram. Everything is made by a shell that undoes it when its
// standard input ends: so it is undone also if this process dies.
//
// Concurrency: one thread. Lifetime: move-only; the destructor waits until all is undone.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/os/fd.h"
#include "yonder/os/process.h"

namespace yonder::bench::heap {

struct SwapOptions {
  Bytes limit{0};   // What the group may keep in memory…
  Bytes device{0};  // …and what the device holds.
};

class SwapBed {
 public:
  // kUnsupported: this machine, or this user, cannot. Nothing is left behind.
  static Result<SwapBed> create(const SwapOptions& options);
  SwapBed(SwapBed&&) = default;
  SwapBed& operator=(SwapBed&&) = delete;
  ~SwapBed();

  // For the process that calls it: it joins the group. False: it could not.
  bool join() const;
  // A command that joins the group before it becomes `command`.
  std::vector<std::string> caged(const std::vector<std::string>& command) const;

 private:
  SwapBed(os::Child shell, os::Fd stop, std::string group)
      : shell_(std::move(shell)), stop_(std::move(stop)), group_(std::move(group)) {}

  os::Child shell_;
  os::Fd stop_;  // The write end of the shell's standard input.
  std::string group_;
};

}  // namespace yonder::bench::heap
