// Shuffle and join over tcp on the loopback.
#include "yonder/fabric/testbed/tcp_place.h"

#include "yonder/structures/suite_shuffle/join_bed.h"

namespace yonder::structures::suite {
namespace {

std::unique_ptr<Place> tcp() { return std::make_unique<fabric::testbed::TcpPlace>(); }

INSTANTIATE_TEST_SUITE_P(Tcp, ShuffleSuite, ::testing::Values(Provider{"loopback", tcp}), provider_name);
INSTANTIATE_TEST_SUITE_P(Tcp, JoinSuite, ::testing::Values(Provider{"loopback", tcp}), provider_name);

}  // namespace
}  // namespace yonder::structures::suite
