#pragma once
// What an executor that is a thread of this process stands on, over a real provider.
//
// Concurrency: made by one thread, then used by its own. Lifetime: what uses it goes first.

#include <memory>
#include <string>
#include <string_view>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"

namespace yonder::bench {

struct ThreadPlace {
  // `provider`: "shm" or "tcp".
  Result<void> open(std::string_view provider);

  std::unique_ptr<fabric::Fabric> fabric;
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Scheduler> scheduler;
};

// An address of the provider to listen at that nobody else has.
std::string free_address(std::string_view provider);

}  // namespace yonder::bench
