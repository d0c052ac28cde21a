// The structures through shared memory.
#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/structures/suite/log_suite.h"
#include "yonder/structures/suite/table_suite.h"

namespace yonder::structures::suite {
namespace {

using fabric::testbed::Place;
using remote::suite::Provider;

std::unique_ptr<Place> in_process() { return std::make_unique<fabric::testbed::ShmPlace>(""); }
std::unique_ptr<Place> apart() { return std::make_unique<fabric::testbed::ShmPlace>("?inprocess=off"); }

const auto kProviders = ::testing::Values(Provider{"in_process", in_process}, Provider{"apart", apart});

INSTANTIATE_TEST_SUITE_P(Shm, LogSuite, kProviders, remote::suite::provider_name);
INSTANTIATE_TEST_SUITE_P(Shm, TableSuite, kProviders, remote::suite::provider_name);

}  // namespace
}  // namespace yonder::structures::suite
