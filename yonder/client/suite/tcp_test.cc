// The object API over tcp on the loopback.
#include "yonder/client/suite/bed.h"
#include "yonder/fabric/testbed/tcp_place.h"

namespace yonder::client::suite {
namespace {

std::unique_ptr<Place> tcp() { return std::make_unique<fabric::testbed::TcpPlace>(); }

INSTANTIATE_TEST_SUITE_P(Tcp, ThreadedSuite,
                         ::testing::Values(Provider{"checksum", tcp, node::Validator::kChecksum}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Tcp, ObjectSuite,
                         ::testing::Values(Provider{"checksum", tcp, node::Validator::kChecksum},
                                           Provider{"reread", tcp, node::Validator::kReread},
                                           Provider{.name = "owners",
                                                    .make = tcp,
                                                    .validator = node::Validator::kChecksum,
                                                    .correction = node::Correction::kOwner}),
                         provider_name);

INSTANTIATE_TEST_SUITE_P(TcpRemapped, ObjectSuite,
                         ::testing::Values(Provider{.name = "checksum",
                                                    .make = tcp,
                                                    .validator = node::Validator::kChecksum,
                                                    .remap = node::Remap::kMmap},
                                           Provider{.name = "reread",
                                                    .make = tcp,
                                                    .validator = node::Validator::kReread,
                                                    .remap = node::Remap::kMmap}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
