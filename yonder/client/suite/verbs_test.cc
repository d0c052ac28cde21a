// The object API on a real RDMA device (in tests: Soft-RoCE in a guest).
#include "yonder/client/suite/bed.h"
#include "yonder/fabric/testbed/verbs_place.h"

namespace yonder::client::suite {
namespace {

const fabric::verbs::RequireDevice kDevice;

std::unique_ptr<Place> verbs() { return std::make_unique<fabric::testbed::VerbsPlace>(); }

INSTANTIATE_TEST_SUITE_P(Verbs, ThreadedSuite,
                         ::testing::Values(Provider{"checksum", verbs, node::Validator::kChecksum}),
                         provider_name);
INSTANTIATE_TEST_SUITE_P(Verbs, ObjectSuite,
                         ::testing::Values(Provider{"checksum", verbs, node::Validator::kChecksum},
                                           // What every device can do, Soft-RoCE included.
                                           Provider{.name = "rereg",
                                                    .make = verbs,
                                                    .validator = node::Validator::kChecksum,
                                                    .remap = node::Remap::kMmap,
                                                    .mapping = node::NicMapping::kRereg}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
