// The object API over shared memory: by loads from windows, and by requests.
#include "yonder/fabric/shm/shm.h"

#include <unistd.h>

#include <atomic>

#include "yonder/client/suite/bed.h"

namespace yonder::client::suite {
namespace {

class ShmPlace final : public Place {
 public:
  explicit ShmPlace(const char* options) : options_(options) {}

  fabric::Fabric& server_fabric() override { return *server_; }
  fabric::Fabric& client_fabric() override { return *client_; }
  std::string listen_address() override {
    static std::atomic<unsigned> next{0};
    return "shm:object-suite-" + std::to_string(::getpid()) + "-" + std::to_string(next++) + options_;
  }

 private:
  const char* options_;
  std::unique_ptr<fabric::Fabric> server_ = fabric::shm::open({}).value();
  std::unique_ptr<fabric::Fabric> client_ = fabric::shm::open({}).value();
};

std::unique_ptr<Place> in_process() { return std::make_unique<ShmPlace>(""); }
std::unique_ptr<Place> foreign() { return std::make_unique<ShmPlace>("?inprocess=off"); }

INSTANTIATE_TEST_SUITE_P(Shm, ObjectSuite,
                         ::testing::Values(Provider{"in_process", in_process, node::Validator::kReread},
                                           Provider{"foreign", foreign, node::Validator::kReread},
                                           Provider{"foreign_checksum", foreign, node::Validator::kChecksum},
                                           Provider{"requests", foreign, node::Validator::kReread, false},
                                           Provider{"requests_checksum", foreign, node::Validator::kChecksum,
                                                    false}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
