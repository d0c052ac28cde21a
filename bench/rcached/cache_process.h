#pragma once
// A cache server as a process: Debian's memcached, or rcached.
//
// Concurrency: one thread. Lifetime: the process ends with this.

#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/os/address.h"
#include "yonder/os/process.h"

namespace yonder::bench {

struct CacheProcessOptions {
  std::string program;
  std::size_t memory_mib = 1024;
  unsigned threads = 4;
  std::vector<std::string> further = {};  // Arguments.
};

class CacheProcess {
 public:
  // Starts it on a free port of the loopback and waits until it answers. Errors: kNotFound
  // (no such program), kDeadlineExceeded.
  static Result<CacheProcess> start(const CacheProcessOptions& options);

  const os::SocketAddress& address() const { return address_; }
  pid_t pid() const { return child_.pid(); }
  // Resident memory. Errors: those of os::usage_of.
  Result<std::uint64_t> resident_bytes() const;

 private:
  CacheProcess(os::Child child, os::SocketAddress address) : child_(std::move(child)), address_(address) {}
  os::Child child_;
  os::SocketAddress address_;
};

}  // namespace yonder::bench
