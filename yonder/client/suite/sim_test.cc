// The object API on two simulated hosts: the node is driven, time is virtual.
#include "yonder/client/suite/bed.h"
#include "yonder/fabric/testbed/sim_place.h"

namespace yonder::client::suite {
namespace {

std::unique_ptr<Place> sim() { return std::make_unique<fabric::testbed::SimPlace>(); }

INSTANTIATE_TEST_SUITE_P(Sim, ObjectSuite,
                         ::testing::Values(Provider{"checksum", sim, node::Validator::kChecksum},
                                           Provider{"lines", sim, node::Validator::kLines},
                                           Provider{"reread", sim, node::Validator::kReread}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
