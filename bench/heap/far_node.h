#pragma once
// A memory node on this machine, in a process of its own, for runs of the far heap over tcp.
//
// Concurrency: one thread, and no other thread in the process (it forks).
// Lifetime: the node ends with the object.

#include <string>
#include <utility>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/os/fd.h"
#include "yonder/os/process.h"

namespace yonder::bench::heap {

class FarNode {
 public:
  // Lends up to `memory`. Errors: kClosed (it could not start; the reason is on standard error).
  static Result<FarNode> start(Bytes memory);

  const std::string& address() const { return address_; }

 private:
  FarNode(os::Child child, std::string address) : child_(std::move(child)), address_(std::move(address)) {}

  os::Child child_;
  std::string address_;
};

}  // namespace yonder::bench::heap
