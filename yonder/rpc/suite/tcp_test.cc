// The rpc suite over tcp on the loopback, with threads.
#include "yonder/fabric/testbed/tcp_place.h"
#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
namespace {

std::unique_ptr<Place> tcp() { return std::make_unique<fabric::testbed::TcpPlace>(); }

INSTANTIATE_TEST_SUITE_P(Tcp, RpcSuite, ::testing::Values(Provider{"tcp", tcp}), provider_name);

}  // namespace
}  // namespace yonder::rpc::suite
