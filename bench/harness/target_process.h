#pragma once
// A process that lends its memory: what `yonder demo` and the benchmarks start
// to have somebody to read from.
//
// serve_memory() is the child's side: it registers memory, listens passively on
// every address it was given, prints one line per address and waits for the end
// of its standard input. TargetProcess is the parent's side.
//
// Concurrency: one thread. Lifetime: the child ends when its TargetProcess does.

#include <cstdint>
#include <string>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/os/fd.h"
#include "yonder/os/process.h"

namespace yonder::bench {

struct ServeOptions {
  std::vector<std::string> addresses;
  Bytes memory{64 << 20};
};

// Returns when standard input ends. Prints "ready ADDRESS" for each address.
Result<void> serve_memory(const ServeOptions& options);

class TargetProcess {
 public:
  // Starts `program serve-memory` and waits until it listens.
  static Result<TargetProcess> start(const std::string& program, const ServeOptions& options);

  // In the order of the options; greeting() of a connection is the region's token.
  const std::vector<std::string>& addresses() const { return addresses_; }
  pid_t pid() const { return child_.pid(); }

 private:
  TargetProcess(os::Child child, os::Fd stop, std::vector<std::string> addresses)
      : child_(std::move(child)), stop_(std::move(stop)), addresses_(std::move(addresses)) {}

  os::Child child_;
  os::Fd stop_;  // The write end of the child's standard input: closing it stops the child.
  std::vector<std::string> addresses_;
};

}  // namespace yonder::bench
