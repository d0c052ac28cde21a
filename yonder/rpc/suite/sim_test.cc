// The rpc suite on two simulated hosts: the server is driven, time is virtual.
#include "yonder/fabric/testbed/sim_place.h"
#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
namespace {

std::unique_ptr<Place> sim() { return std::make_unique<fabric::testbed::SimPlace>(); }

INSTANTIATE_TEST_SUITE_P(Sim, RpcSuite, ::testing::Values(Provider{"sim", sim}), provider_name);

}  // namespace
}  // namespace yonder::rpc::suite
