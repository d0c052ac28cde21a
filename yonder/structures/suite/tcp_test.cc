// The structures over tcp on the loopback.
#include "yonder/fabric/testbed/tcp_place.h"
#include "yonder/structures/suite/log_suite.h"
#include "yonder/structures/suite/table_suite.h"

namespace yonder::structures::suite {
namespace {

using fabric::testbed::Place;
using remote::suite::Provider;

std::unique_ptr<Place> tcp() { return std::make_unique<fabric::testbed::TcpPlace>(); }

const auto kProviders = ::testing::Values(Provider{"tcp", tcp});

INSTANTIATE_TEST_SUITE_P(Tcp, LogSuite, kProviders, remote::suite::provider_name);
INSTANTIATE_TEST_SUITE_P(Tcp, TableSuite, kProviders, remote::suite::provider_name);

}  // namespace
}  // namespace yonder::structures::suite
