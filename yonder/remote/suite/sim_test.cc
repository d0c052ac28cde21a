// The toolkit on simulated NICs.
#include "yonder/fabric/testbed/sim_place.h"
#include "yonder/remote/suite/burst_bed.h"
#include "yonder/remote/suite/service_bed.h"

namespace yonder::remote::suite {
namespace {

using fabric::testbed::SimPlace;

std::unique_ptr<Place> old_nic() { return std::make_unique<SimPlace>(fabric::sim::connectx3_40g()); }
std::unique_ptr<Place> new_nic() { return std::make_unique<SimPlace>(fabric::sim::rdma100g()); }

INSTANTIATE_TEST_SUITE_P(Sim, RemoteSuite,
                         ::testing::Values(Provider{"connectx3", old_nic}, Provider{"rdma100g", new_nic}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Sim, BurstSuite,
                         ::testing::Values(Provider{"connectx3", old_nic}, Provider{"rdma100g", new_nic}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Sim, ServiceSuite,
                         ::testing::Values(Provider{"connectx3", old_nic}, Provider{"rdma100g", new_nic}),
                         provider_name);

}  // namespace
}  // namespace yonder::remote::suite
