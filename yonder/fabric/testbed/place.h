#pragma once
// Where a suite of something that stands on the fabric runs: a fabric for its
// server, one for its clients, and an address to listen at. The suites of rpc and
// of the client take a Place and know no provider; *_place.h are the providers'.
//
// Concurrency: the test's thread. Lifetime: outlives everything made on its fabrics.

#include <string>

#include "yonder/fabric/fabric.h"

namespace yonder::fabric::testbed {

class Place {
 public:
  virtual ~Place() = default;
  virtual Fabric& server_fabric() = 0;
  virtual Fabric& client_fabric() = 0;
  virtual std::string listen_address() = 0;
};

}  // namespace yonder::fabric::testbed
