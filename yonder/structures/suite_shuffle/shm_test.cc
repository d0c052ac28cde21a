// Shuffle and join over shared memory: peers of one process, and such as share nothing else.
#include "yonder/fabric/testbed/shm_place.h"

#include "yonder/structures/suite_shuffle/join_bed.h"

namespace yonder::structures::suite {
namespace {

std::unique_ptr<Place> in_process() { return std::make_unique<fabric::testbed::ShmPlace>(""); }
std::unique_ptr<Place> foreign() { return std::make_unique<fabric::testbed::ShmPlace>("?inprocess=off"); }

INSTANTIATE_TEST_SUITE_P(Shm, ShuffleSuite,
                         ::testing::Values(Provider{"in_process", in_process}, Provider{"foreign", foreign}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Shm, JoinSuite,
                         ::testing::Values(Provider{"in_process", in_process}, Provider{"foreign", foreign}),
                         provider_name);

}  // namespace
}  // namespace yonder::structures::suite
