#pragma once
// A client's side of a connection to a process that lends memory.
//
// Concurrency: one thread per connection. Lifetime: members are destroyed in the
// reverse order, as the fabric asks.

#include <memory>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"

namespace yonder::bench {

struct Connection {
  std::string provider;
  std::unique_ptr<fabric::Fabric> fabric;
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Endpoint> endpoint;
  fabric::RegionToken memory;  // What the lender greeted us with.
};

Result<Connection> connect_to_lender(const std::string& address);
Result<std::vector<Connection>> connect_all(const std::vector<std::string>& addresses);

}  // namespace yonder::bench
