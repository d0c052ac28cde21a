// Segments between processes over sockets.
#include "yonder/segment/suite/suite.h"

namespace yonder::segment::suite {

INSTANTIATE_TEST_SUITE_P(Tcp, Migrations, ::testing::Values("tcp://127.0.0.1:0"),
                         [](const auto&) { return "loopback"; });

}  // namespace yonder::segment::suite
