// Shuffle and join on two simulated hosts, in virtual time.
#include "yonder/fabric/testbed/sim_place.h"

#include "yonder/structures/suite_shuffle/join_bed.h"

namespace yonder::structures::suite {
namespace {

std::unique_ptr<Place> sim() { return std::make_unique<fabric::testbed::SimPlace>(); }

INSTANTIATE_TEST_SUITE_P(Sim, ShuffleSuite, ::testing::Values(Provider{"connectx3", sim}), provider_name);
INSTANTIATE_TEST_SUITE_P(Sim, JoinSuite, ::testing::Values(Provider{"connectx3", sim}), provider_name);

}  // namespace
}  // namespace yonder::structures::suite
