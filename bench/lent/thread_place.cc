#include "bench/lent/thread_place.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "yonder/fabric/open/open.h"

namespace yonder::bench {

Result<void> ThreadPlace::open(std::string_view provider) {
  YONDER_TRY(opened, yonder::fabric::open(std::string(provider) + ":"));
  YONDER_TRY(made, opened->create_completion_queue({}));
  fabric = std::move(opened);
  queue = std::move(made);
  scheduler = std::make_unique<yonder::fabric::Scheduler>(*queue);
  return {};
}

std::string free_address(std::string_view provider) {
  static std::atomic<unsigned> next{0};
  if (provider == "tcp") return "tcp://127.0.0.1:0";
  return "shm:bench-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

}  // namespace yonder::bench
