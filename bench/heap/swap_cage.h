#pragma once
// SwapCage: a memory cgroup with a limit, and a swap device in RAM for what does not fit.
//
// The baseline of far memory: what a stock kernel does by itself. The device is a loop
// device on a file in a tmpfs, as fast as a disk can be.
//
// Concurrency: one thread. Lifetime: the destructor undoes all of it, in reverse order;
// processes in the cage must have ended by then.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"

namespace yonder::bench {

class SwapCage {
 public:
  // Errors: kUnsupported (no memory cgroup, no loop device), kPermissionDenied, kOsError.
  static Result<std::unique_ptr<SwapCage>> create(Bytes limit, Bytes swap);
  ~SwapCage();
  SwapCage(const SwapCage&) = delete;
  SwapCage& operator=(const SwapCage&) = delete;

  // The command, to be run by a shell that joins the cage first.
  std::vector<std::string> caged(const std::vector<std::string>& command) const;

 private:
  SwapCage() = default;
  Result<void> set_up(Bytes limit, Bytes swap);

  std::string group_;
  std::vector<std::function<void()>> undo_;
};

}  // namespace yonder::bench
