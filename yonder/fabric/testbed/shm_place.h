#pragma once
// Where a suite runs: shared memory. "" as options makes peers of one
// process, "?inprocess=off" such as share nothing but what the provider hands over.
//
// Concurrency: the test's thread. Lifetime: outlives everything made on its fabrics.

#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/testbed/place.h"

namespace yonder::fabric::testbed {

class ShmPlace final : public Place {
 public:
  explicit ShmPlace(const char* options) : options_(options) {}

  Fabric& server_fabric() override { return *server_; }
  Fabric& client_fabric() override { return *client_; }
  std::string listen_address() override {
    static std::atomic<unsigned> next{0};
    return "shm:suite-" + std::to_string(::getpid()) + "-" + std::to_string(next++) + options_;
  }

 private:
  const char* options_;
  std::unique_ptr<Fabric> server_ = shm::open({}).value();
  std::unique_ptr<Fabric> client_ = shm::open({}).value();
};

}  // namespace yonder::fabric::testbed
