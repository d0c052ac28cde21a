// The rpc suite over shared memory: peers of one process, and peers that share
// nothing but what the provider hands over.
#include <unistd.h>

#include <atomic>

#include "yonder/fabric/shm/shm.h"
#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
namespace {

class ShmPlace final : public Place {
 public:
  explicit ShmPlace(const char* options) : options_(options) {}

  fabric::Fabric& server_fabric() override { return *server_; }
  fabric::Fabric& client_fabric() override { return *client_; }
  std::string listen_address() override {
    static std::atomic<unsigned> next{0};
    return "shm:rpc-suite-" + std::to_string(::getpid()) + "-" + std::to_string(next++) + options_;
  }

 private:
  const char* options_;
  std::unique_ptr<fabric::Fabric> server_ = fabric::shm::open({}).value();
  std::unique_ptr<fabric::Fabric> client_ = fabric::shm::open({}).value();
};

std::unique_ptr<Place> in_process() { return std::make_unique<ShmPlace>(""); }
std::unique_ptr<Place> foreign() { return std::make_unique<ShmPlace>("?inprocess=off"); }

INSTANTIATE_TEST_SUITE_P(Shm, RpcSuite,
                         ::testing::Values(Provider{"in_process", in_process}, Provider{"foreign", foreign}),
                         provider_name);

}  // namespace
}  // namespace yonder::rpc::suite
