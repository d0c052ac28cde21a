// The toolkit over tcp.
#include "yonder/fabric/testbed/tcp_place.h"
#include "yonder/remote/suite/burst_bed.h"
#include "yonder/remote/suite/service_bed.h"

namespace yonder::remote::suite {
namespace {

std::unique_ptr<Place> tcp() { return std::make_unique<fabric::testbed::TcpPlace>(); }

INSTANTIATE_TEST_SUITE_P(Tcp, RemoteSuite, ::testing::Values(Provider{"loopback", tcp}), provider_name);
INSTANTIATE_TEST_SUITE_P(Tcp, BurstSuite, ::testing::Values(Provider{"loopback", tcp}), provider_name);
INSTANTIATE_TEST_SUITE_P(Tcp, ServiceSuite, ::testing::Values(Provider{"loopback", tcp}), provider_name);

}  // namespace
}  // namespace yonder::remote::suite
