// The object API on two simulated hosts: the node is driven, time is virtual.
#include "yonder/client/suite/bed.h"
#include "yonder/fabric/testbed/sim_place.h"

namespace yonder::client::suite {
namespace {

using node::NicMapping;
using node::Remap;

std::unique_ptr<Place> sim() { return std::make_unique<fabric::testbed::SimPlace>(); }
// With on-demand paging.
std::unique_ptr<Place> odp() { return std::make_unique<fabric::testbed::SimPlace>(fabric::sim::rdma100g()); }

Provider remapped(const char* name, std::unique_ptr<Place> (*make)(), node::Validator validator,
                  NicMapping mapping) {
  return {.name = name, .make = make, .validator = validator, .remap = Remap::kMmap, .mapping = mapping};
}

INSTANTIATE_TEST_SUITE_P(Sim, ObjectSuite,
                         ::testing::Values(Provider{"checksum", sim, node::Validator::kChecksum},
                                           Provider{"lines", sim, node::Validator::kLines},
                                           Provider{"reread", sim, node::Validator::kReread},
                                           Provider{.name = "owners",
                                                    .make = sim,
                                                    .validator = node::Validator::kChecksum,
                                                    .correction = node::Correction::kOwner}),
                         provider_name);

INSTANTIATE_TEST_SUITE_P(
    SimRemapped, ObjectSuite,
    ::testing::Values(
        remapped("odp_prefetch_checksum", odp, node::Validator::kChecksum, NicMapping::kOdpPrefetch),
        remapped("odp_prefetch_lines", odp, node::Validator::kLines, NicMapping::kOdpPrefetch),
        remapped("odp_prefetch_reread", odp, node::Validator::kReread, NicMapping::kOdpPrefetch),
        remapped("odp_checksum", odp, node::Validator::kChecksum, NicMapping::kOdp),
        remapped("odp_reread", odp, node::Validator::kReread, NicMapping::kOdp),
        remapped("rereg_checksum", sim, node::Validator::kChecksum, NicMapping::kRereg),
        remapped("rereg_lines", sim, node::Validator::kLines, NicMapping::kRereg),
        remapped("rereg_reread", sim, node::Validator::kReread, NicMapping::kRereg)),
    provider_name);

}  // namespace
}  // namespace yonder::client::suite
