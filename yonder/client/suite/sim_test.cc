// The object API on two simulated hosts: the node is driven, time is virtual.
#include "yonder/client/suite/bed.h"
#include "yonder/fabric/sim/world.h"

namespace yonder::client::suite {
namespace {

class SimPlace final : public Place {
 public:
  fabric::Fabric& server_fabric() override { return world_.host(0).fabric(); }
  fabric::Fabric& client_fabric() override { return world_.host(1).fabric(); }
  std::string listen_address() override { return "sim://host0:0"; }

 private:
  fabric::sim::World world_{{.seed = 42, .hosts = 2}};
};

std::unique_ptr<Place> sim() { return std::make_unique<SimPlace>(); }

INSTANTIATE_TEST_SUITE_P(Sim, ObjectSuite,
                         ::testing::Values(Provider{"checksum", sim, node::Validator::kChecksum},
                                           Provider{"lines", sim, node::Validator::kLines},
                                           Provider{"reread", sim, node::Validator::kReread}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
