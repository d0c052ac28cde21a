// Shuffle and join on a real RDMA device (in tests: Soft-RoCE in a guest).
#include "yonder/fabric/verbs/verbs.h"

#include "yonder/base/prng.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/verbs/device_test_support.h"
#include "yonder/structures/suite_shuffle/join_bed.h"

namespace yonder::structures::suite {
namespace {

const fabric::verbs::RequireDevice kDevice;

class VerbsPlace final : public Place {
 public:
  fabric::Fabric& server_fabric() override { return *server_; }
  fabric::Fabric& client_fabric() override { return *client_; }
  std::string listen_address() override {
    return "verbs://" + fabric::verbs::device_ip(*server_) + ":" +
           std::to_string(20000 + ports_.below(40000));
  }

 private:
  std::unique_ptr<fabric::Fabric> server_ = fabric::verbs::open().value();
  std::unique_ptr<fabric::Fabric> client_ = fabric::verbs::open().value();
  Prng ports_{secure_random_u64().value_or(1)};
};

std::unique_ptr<Place> verbs() { return std::make_unique<VerbsPlace>(); }

INSTANTIATE_TEST_SUITE_P(Verbs, ShuffleSuite, ::testing::Values(Provider{"device", verbs}), provider_name);
INSTANTIATE_TEST_SUITE_P(Verbs, JoinSuite, ::testing::Values(Provider{"device", verbs}), provider_name);

}  // namespace
}  // namespace yonder::structures::suite
