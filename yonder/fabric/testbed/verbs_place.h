#pragma once
// Where a suite runs: two fabrics on one RDMA device.
//
// Concurrency: the test's thread. Lifetime: outlives everything made on its fabrics.

#include <memory>
#include <string>

#include "yonder/base/prng.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/testbed/place.h"
#include "yonder/fabric/verbs/device_test_support.h"
#include "yonder/fabric/verbs/verbs.h"

namespace yonder::fabric::testbed {

class VerbsPlace final : public Place {
 public:
  Fabric& server_fabric() override { return *server_; }
  Fabric& client_fabric() override { return *client_; }
  std::string listen_address() override {
    return "verbs://" + verbs::device_ip(*server_) + ":" + std::to_string(20000 + ports_.below(40000));
  }

 private:
  std::unique_ptr<Fabric> server_ = verbs::open().value();
  std::unique_ptr<Fabric> client_ = verbs::open().value();
  Prng ports_{secure_random_u64().value_or(1)};
};

}  // namespace yonder::fabric::testbed
