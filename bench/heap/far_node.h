#pragma once
// A memory node on this machine, in a process of its own, for runs of the far heap that need one.
//
// Concurrency: one thread, and no other thread in the process (it forks).
// Lifetime: the node ends with the object.

#include <functional>
#include <string>
#include <utility>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/offload/host.h"
#include "yonder/os/fd.h"
#include "yonder/os/process.h"

namespace yonder::bench::heap {

struct FarNodeOptions {
  Bytes memory{0};                            // Lent, at most.
  std::string address = "tcp://127.0.0.1:0";  // Where it listens.
  offload::HostOptions functions;             // Without a directory: none.
  std::function<void()> in_child;             // Called in the node's process before anything else.
};

class FarNode {
 public:
  // Errors: kClosed (it could not start; the reason is on standard error).
  static Result<FarNode> start(const FarNodeOptions& options);
  static Result<FarNode> start(Bytes memory) { return start(FarNodeOptions{.memory = memory}); }

  const std::string& address() const { return address_; }

 private:
  FarNode(os::Child child, std::string address) : child_(std::move(child)), address_(std::move(address)) {}

  os::Child child_;
  std::string address_;
};

}  // namespace yonder::bench::heap
