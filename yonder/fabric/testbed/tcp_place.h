#pragma once
// Where a suite runs: tcp on the loopback.
//
// Concurrency: the test's thread. Lifetime: outlives everything made on its fabrics.

#include <memory>
#include <string>

#include "yonder/fabric/tcp/tcp.h"
#include "yonder/fabric/testbed/place.h"

namespace yonder::fabric::testbed {

class TcpPlace final : public Place {
 public:
  Fabric& server_fabric() override { return *server_; }
  Fabric& client_fabric() override { return *client_; }
  std::string listen_address() override { return "tcp://127.0.0.1:0"; }

 private:
  std::unique_ptr<Fabric> server_ = tcp::open().value();
  std::unique_ptr<Fabric> client_ = tcp::open().value();
};

}  // namespace yonder::fabric::testbed
