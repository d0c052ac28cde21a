#pragma once
// Memory of another process of this machine, and a connection to it over a real provider.
//
// Concurrency: one thread. Lifetime: what uses the port goes first; the process ends with
// this.

#include <memory>
#include <string>

#include "bench/harness/benchmark.h"
#include "bench/harness/target_process.h"
#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/remote/port.h"

namespace yonder::bench {

struct LentProcess {
  // `provider`: "shm" or "tcp".
  static Result<std::unique_ptr<LentProcess>> start(const Options& options, const std::string& provider,
                                                    Bytes memory);
  remote::Port port() const { return {*endpoint, *scheduler}; }

  TargetProcess process;
  std::unique_ptr<fabric::Fabric> fabric;
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Scheduler> scheduler;
  std::unique_ptr<fabric::Endpoint> endpoint;
  fabric::RegionToken token;
};

}  // namespace yonder::bench
