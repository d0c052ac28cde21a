// The rpc suite on two simulated hosts: the server is driven, time is virtual.
#include "yonder/fabric/sim/world.h"
#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
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

INSTANTIATE_TEST_SUITE_P(Sim, RpcSuite, ::testing::Values(Provider{"sim", sim}), provider_name);

}  // namespace
}  // namespace yonder::rpc::suite
