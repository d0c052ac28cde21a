// The toolkit over shared memory, within one process and as if between two.
#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/remote/suite/burst_bed.h"
#include "yonder/remote/suite/service_bed.h"

namespace yonder::remote::suite {
namespace {

using fabric::testbed::ShmPlace;

std::unique_ptr<Place> in_process() { return std::make_unique<ShmPlace>(""); }
std::unique_ptr<Place> foreign() { return std::make_unique<ShmPlace>("?inprocess=off"); }

INSTANTIATE_TEST_SUITE_P(Shm, RemoteSuite,
                         ::testing::Values(Provider{"inprocess", in_process}, Provider{"foreign", foreign}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Shm, BurstSuite,
                         ::testing::Values(Provider{"inprocess", in_process}, Provider{"foreign", foreign}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Shm, ServiceSuite,
                         ::testing::Values(Provider{"inprocess", in_process}, Provider{"foreign", foreign}),
                         provider_name);

}  // namespace
}  // namespace yonder::remote::suite
