// The toolkit on a real RDMA device (in tests: Soft-RoCE in a guest).
#include "yonder/fabric/testbed/verbs_place.h"
#include "yonder/remote/suite/burst_bed.h"
#include "yonder/remote/suite/service_bed.h"

namespace yonder::remote::suite {
namespace {

const fabric::verbs::RequireDevice kDevice;

std::unique_ptr<Place> verbs() { return std::make_unique<fabric::testbed::VerbsPlace>(); }

INSTANTIATE_TEST_SUITE_P(Verbs, RemoteSuite, ::testing::Values(Provider{"device", verbs}), provider_name);
INSTANTIATE_TEST_SUITE_P(Verbs, BurstSuite, ::testing::Values(Provider{"device", verbs}), provider_name);
INSTANTIATE_TEST_SUITE_P(Verbs, ServiceSuite, ::testing::Values(Provider{"device", verbs}), provider_name);

}  // namespace
}  // namespace yonder::remote::suite
