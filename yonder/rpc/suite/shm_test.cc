// The rpc suite over shared memory: peers of one process, and peers that share
// nothing but what the provider hands over.
#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
namespace {

std::unique_ptr<Place> in_process() { return std::make_unique<fabric::testbed::ShmPlace>(""); }
std::unique_ptr<Place> foreign() { return std::make_unique<fabric::testbed::ShmPlace>("?inprocess=off"); }

INSTANTIATE_TEST_SUITE_P(Shm, RpcSuite,
                         ::testing::Values(Provider{"in_process", in_process}, Provider{"foreign", foreign}),
                         provider_name);

}  // namespace
}  // namespace yonder::rpc::suite
