// Segments between processes of one host, over shared memory.
#include "yonder/segment/suite/suite.h"

namespace yonder::segment::suite {

INSTANTIATE_TEST_SUITE_P(Shm, Migrations, ::testing::Values("shm:"), [](const auto&) { return "foreign"; });

}  // namespace yonder::segment::suite
