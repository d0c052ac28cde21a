#include "bench/lent/lent_process.h"

#include <utility>

#include "yonder/fabric/open/open.h"

namespace yonder::bench {

Result<std::unique_ptr<LentProcess>> LentProcess::start(const Options& options, const std::string& provider,
                                                        Bytes memory) {
  YONDER_TRY(process, TargetProcess::start(options.program,
                                           {.addresses = {provider == "tcp" ? "tcp://127.0.0.1:0" : "shm:"},
                                            .memory = memory}));
  auto lent = std::make_unique<LentProcess>(LentProcess{.process = std::move(process)});
  const std::string& address = lent->process.addresses()[0];
  YONDER_TRY(opened, fabric::open(address));
  lent->fabric = std::move(opened);
  YONDER_TRY(queue, lent->fabric->create_completion_queue({}));
  lent->queue = std::move(queue);
  lent->scheduler = std::make_unique<fabric::Scheduler>(*lent->queue);
  YONDER_TRY(endpoint, lent->fabric->connect({.address = address}, *lent->queue));
  lent->endpoint = std::move(endpoint);
  YONDER_TRY(token, fabric::RegionToken::decode(lent->endpoint->greeting()));
  lent->token = token;
  return lent;
}

}  // namespace yonder::bench
