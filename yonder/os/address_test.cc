#include "yonder/os/address.h"

#include <gtest/gtest.h>

#include <string>

namespace yonder::os {
namespace {

TEST(SocketAddress, SplitsHostAndPort) {
  EXPECT_EQ(parse_host_port("example.org:80").value().host, "example.org");
  EXPECT_EQ(parse_host_port("example.org:80").value().port, 80);
  EXPECT_EQ(parse_host_port("[::1]:65535").value().host, "::1");
  EXPECT_EQ(parse_host_port("[::1]:65535").value().port, 65535);
  EXPECT_EQ(parse_host_port(":0").value().host, "");
}

TEST(SocketAddress, RefusesWhatIsNoHostAndPort) {
  for (const char* text : {"", "host", "host:", "host:x", "host:65536", "host:-1", "host:1 ", "::1:80",
                           "[::1]", "[]:1", "[::1:80", "a[b]:80", "[::1]x:80"})
    EXPECT_EQ(parse_host_port(text).error(), ErrorCode::kAddressInvalid) << text;
}

TEST(SocketAddress, NumericAddressesComeBackAsText) {
  for (const char* text : {"127.0.0.1:7400", "[::1]:7400", "0.0.0.0:0"}) {
    const auto addresses = SocketAddress::resolve(text).value();
    ASSERT_EQ(addresses.size(), 1u) << text;
    EXPECT_EQ(addresses[0].to_string(), text);
  }
  EXPECT_EQ(SocketAddress::resolve("127.0.0.1:7400").value()[0].port(), 7400);
}

TEST(SocketAddress, AnEmptyHostIsForListenersOnly) {
  EXPECT_EQ(SocketAddress::resolve(":80").error(), ErrorCode::kAddressInvalid);
  EXPECT_FALSE(SocketAddress::resolve("*:80", {.for_listening = true}).value().empty());
}

TEST(SocketAddress, UnixNamesArePathsOrAbstract) {
  EXPECT_EQ(SocketAddress::unix_name("/tmp/x.sock").value().to_string(), "/tmp/x.sock");
  EXPECT_EQ(SocketAddress::unix_name("@yonder").value().to_string(), "@yonder");
  EXPECT_EQ(SocketAddress::unix_name(std::string(107, 'x')).value().to_string(), std::string(107, 'x'));
  EXPECT_TRUE(SocketAddress::unix_name("@yonder").value().is_unix());
}

TEST(SocketAddress, RefusesUnixNamesTheKernelCannotTake) {
  EXPECT_EQ(SocketAddress::unix_name("").error(), ErrorCode::kAddressInvalid);
  EXPECT_EQ(SocketAddress::unix_name("@").error(), ErrorCode::kAddressInvalid);
  EXPECT_EQ(SocketAddress::unix_name(std::string(108, 'x')).error(), ErrorCode::kAddressInvalid);
  EXPECT_EQ(SocketAddress::unix_name(std::string_view("a\0b", 3)).error(), ErrorCode::kAddressInvalid);
}

TEST(SocketAddress, AnEmptyAddressHasText) { EXPECT_EQ(SocketAddress().to_string(), "(none)"); }

}  // namespace
}  // namespace yonder::os
