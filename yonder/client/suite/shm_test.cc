// The object API over shared memory: by loads from windows, and by requests.
#include "yonder/client/suite/bed.h"
#include "yonder/fabric/testbed/shm_place.h"

namespace yonder::client::suite {
namespace {

std::unique_ptr<Place> in_process() { return std::make_unique<fabric::testbed::ShmPlace>(""); }
std::unique_ptr<Place> foreign() { return std::make_unique<fabric::testbed::ShmPlace>("?inprocess=off"); }

INSTANTIATE_TEST_SUITE_P(Shm, ObjectSuite,
                         ::testing::Values(Provider{"in_process", in_process, node::Validator::kReread},
                                           Provider{"foreign", foreign, node::Validator::kReread},
                                           Provider{"foreign_checksum", foreign, node::Validator::kChecksum},
                                           Provider{"requests", foreign, node::Validator::kReread, false},
                                           Provider{"requests_checksum", foreign, node::Validator::kChecksum,
                                                    false}),
                         provider_name);

}  // namespace
}  // namespace yonder::client::suite
