// The structures on a real RDMA device (in tests: Soft-RoCE in a guest).
#include "yonder/fabric/testbed/verbs_place.h"
#include "yonder/structures/suite/log_suite.h"

namespace yonder::structures::suite {
namespace {

using fabric::testbed::Place;
using remote::suite::Provider;

const fabric::verbs::RequireDevice kDevice;

std::unique_ptr<Place> verbs() { return std::make_unique<fabric::testbed::VerbsPlace>(); }

INSTANTIATE_TEST_SUITE_P(Verbs, LogSuite, ::testing::Values(Provider{"device", verbs}),
                         remote::suite::provider_name);

}  // namespace
}  // namespace yonder::structures::suite
