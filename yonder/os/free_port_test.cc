#include "yonder/os/free_port.h"

#include <gtest/gtest.h>

#include <set>

#include "yonder/os/socket.h"

namespace yonder::os {
namespace {

TEST(FreePort, CanBeListenedAt) {
  const auto address = free_port();
  ASSERT_TRUE(address) << address.error();
  EXPECT_TRUE(Socket::listen(*address, {}));
}

TEST(FreePort, IsNoneThatAConnectionGets) {
  std::set<std::uint16_t> ports;
  for (int i = 0; i < 50; ++i) {
    const auto address = free_port();
    ASSERT_TRUE(address) << address.error();
    EXPECT_GE(address->port(), 10'000);
    EXPECT_LT(address->port(), 30'000);
    ports.insert(address->port());
  }
  EXPECT_GT(ports.size(), 25u) << "drawn, not counted: callers in other processes get others";
}

}  // namespace
}  // namespace yonder::os
