// Segments between processes on a real RDMA device (in tests: Soft-RoCE in a guest).
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "yonder/segment/suite/suite.h"

namespace yonder::segment::suite {

// Not RequireDevice: the actors are forked, and a process that has used the device must not.
struct RequireSomeDevice {
  RequireSomeDevice() {
    std::error_code ignored;
    if (!std::filesystem::is_empty("/sys/class/infiniband", ignored) && !ignored) return;
    std::printf("skipped: no RDMA device\n");
    std::fflush(stdout);
    std::_Exit(77);
  }
};
const RequireSomeDevice kDevice;

INSTANTIATE_TEST_SUITE_P(Verbs, Migrations, ::testing::Values("verbs://*:0"),
                         [](const auto&) { return "device"; });

}  // namespace yonder::segment::suite
