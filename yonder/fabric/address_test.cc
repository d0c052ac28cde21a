#include "yonder/fabric/address.h"

#include <gtest/gtest.h>

namespace yonder::fabric {
namespace {

TEST(Address, TakesProviderPlaceAndOptionsApart) {
  const Address address = parse_address("shm:node-1?model=rdma100g&inprocess=off").value();
  EXPECT_EQ(address.provider, "shm");
  EXPECT_EQ(address.place, "node-1");
  EXPECT_EQ(address.options.at("model"), "rdma100g");
  EXPECT_EQ(address.options.at("inprocess"), "off");
  EXPECT_EQ(parse_address("tcp://[::1]:7400").value().place, "[::1]:7400");
  EXPECT_EQ(parse_address("tcp://a:1?tls").value().options.at("tls"), "on");
  EXPECT_EQ(parse_address("tcp:").value().place, "");
}

TEST(Address, PrintsWhatItParsed) {
  for (const char* text : {"shm:a", "tcp://h:1?a=b&c=d", "verbs://10.0.0.1:7400", "sim://host0:1"}) {
    EXPECT_EQ(parse_address(text).value().to_string(), text);
  }
}

TEST(Address, RefusesNonsense) {
  for (const std::string& text :
       {std::string(""), std::string("tcp"), std::string("ftp://x"), std::string("tcp://h?=1"),
        std::string("tcp://h?a=1&a=2"), std::string("shm:////x"), std::string("tcp://h h"),
        std::string("tcp://h\n"), "tcp://" + std::string(2000, 'x')}) {
    const auto parsed = parse_address(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error(), ErrorCode::kAddressInvalid);
  }
}

}  // namespace
}  // namespace yonder::fabric
