#include "yonder/fabric/open/open.h"

#include <gtest/gtest.h>

namespace yonder::fabric {
namespace {

TEST(Open, FindsTheProviderByItsName) {
  for (const char* name : {"shm", "tcp"}) {
    const auto fabric = open(std::string(name) + ":");
    ASSERT_TRUE(fabric) << fabric.error();
    EXPECT_EQ((*fabric)->capabilities().provider, name);
  }
}

TEST(Open, SaysWhatItCannotOpen) {
  EXPECT_EQ(open("gopher:").error(), ErrorCode::kAddressInvalid);
  EXPECT_EQ(open("sim://host0").error(), ErrorCode::kUnsupported);
}

TEST(Open, ProbesEveryProviderOnce) {
  std::size_t usable = 0;
  for (const ProviderStatus& provider : probe_providers()) {
    if (provider.usable) {
      ++usable;
    } else {
      EXPECT_EQ(provider.name, "verbs") << "only RDMA may be missing on a machine";
      EXPECT_EQ(provider.usable.error(), ErrorCode::kProviderUnavailable);
    }
  }
  EXPECT_GE(usable, 2u);
}

}  // namespace
}  // namespace yonder::fabric
