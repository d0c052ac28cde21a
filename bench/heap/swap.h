#pragma once
// The kernel's own far memory: a swap device in RAM, and a group of processes that may keep only
// so much in memory.
//
// Needs root, cgroup v1 and zram. Everything is made by a shell that undoes it when its
// standard input ends: so it is undone also if this process dies. What a shell that was killed
// has left behind, the next one undoes.
//
// A small group that fills quickly is killed by the kernel for want of memory, though nearly
// all of it could leave: reclaim (without MGLRU) takes pages from the inactive list, and refills that
// from the active one if it is *short by the group's statistics*, which the kernel brings up
// to date every two seconds. Until then a group whose pages were made in this time and used
// twice has an inactive list that is empty and believed to be long, and sixteen passes over
// nothing, half a millisecond, are an out-of-memory to it. So a process minds the group: to
// read memory.stat brings the numbers up to date, 200 times a second; the kernel is told to
// let processes wait rather than kill them (memory.oom_control), and those that do are woken, by
// a limit that is raised and lowered again.
//
// Concurrency: one thread. Lifetime: move-only; the destructor waits until all is undone.

#include <optional>
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
  os::Fd stop_minder_;  // The minder ends when this is closed.
  std::optional<os::Child> minder_;
};

}  // namespace yonder::bench::heap
