// The structures on simulated NICs.
#include "yonder/fabric/testbed/sim_place.h"
#include "yonder/structures/suite/log_suite.h"
#include "yonder/structures/suite/table_suite.h"

namespace yonder::structures::suite {
namespace {

using fabric::testbed::Place;
using remote::suite::Provider;

std::unique_ptr<Place> old_nic() { return std::make_unique<fabric::testbed::SimPlace>(); }
std::unique_ptr<Place> new_nic() {
  return std::make_unique<fabric::testbed::SimPlace>(fabric::sim::rdma100g());
}

const auto kProviders = ::testing::Values(Provider{"connectx3", old_nic}, Provider{"rdma100g", new_nic});

INSTANTIATE_TEST_SUITE_P(Sim, LogSuite, kProviders, remote::suite::provider_name);
INSTANTIATE_TEST_SUITE_P(Sim, TableSuite, kProviders, remote::suite::provider_name);

}  // namespace
}  // namespace yonder::structures::suite
