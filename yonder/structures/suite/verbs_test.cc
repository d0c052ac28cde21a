// The structures on a real RDMA device (in tests: Soft-RoCE in a guest).
#include "yonder/fabric/testbed/verbs_place.h"
#include "yonder/structures/suite/log_suite.h"
#include "yonder/structures/suite/table_suite.h"

namespace yonder::structures::suite {
namespace {

using fabric::testbed::Place;
using remote::suite::Provider;

const fabric::verbs::RequireDevice kDevice;

std::unique_ptr<Place> verbs() { return std::make_unique<fabric::testbed::VerbsPlace>(); }

const auto kProviders = ::testing::Values(Provider{"device", verbs});

INSTANTIATE_TEST_SUITE_P(Verbs, LogSuite, kProviders, remote::suite::provider_name);
INSTANTIATE_TEST_SUITE_P(Verbs, TableSuite, kProviders, remote::suite::provider_name);

}  // namespace
}  // namespace yonder::structures::suite
