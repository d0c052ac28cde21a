#include "yonder/fabric/handshake.h"

#include <gtest/gtest.h>

#include <array>

namespace yonder::fabric {
namespace {

std::array<std::byte, Hello::kEncodedBytes> encoded(const Hello& hello) {
  std::array<std::byte, Hello::kEncodedBytes> bytes;
  hello.encode(bytes);
  return bytes;
}

TEST(Hello, SurvivesItsEncoding) {
  const Hello hello{.min_version = 1,
                    .max_version = 3,
                    .features = 5,
                    .identity = {TenantId{7}, Epoch{1ULL << 40}},
                    .process = 9};
  const Hello copy = Hello::decode(encoded(hello)).value();
  EXPECT_EQ(copy.max_version, 3);
  EXPECT_EQ(copy.features, 5u);
  EXPECT_EQ(copy.identity.tenant, TenantId{7});
  EXPECT_EQ(copy.identity.epoch, Epoch{1ULL << 40});
  EXPECT_EQ(copy.process, 9u);
}

TEST(Hello, RefusesOtherProtocolsAndEmptyRanges) {
  auto bytes = encoded({});
  EXPECT_FALSE(Hello::decode(std::span(bytes).first(39)));
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(Hello::decode(bytes).error(), ErrorCode::kMalformedFrame);
  EXPECT_FALSE(Hello::decode(encoded({.min_version = 3, .max_version = 2})));
  EXPECT_FALSE(Hello::decode(encoded({.min_version = 0, .max_version = 2})));
}

TEST(Agreement, TakesTheHighestCommonVersionAndTheCommonFeatures) {
  const Agreement agreed = agree({.min_version = 1, .max_version = 4, .features = 6},
                                 {.min_version = 2, .max_version = 3, .features = 3})
                               .value();
  EXPECT_EQ(agreed.version, 3);
  EXPECT_EQ(agreed.features, 2u);
}

TEST(Agreement, FailsWhenTheRangesDoNotMeet) {
  EXPECT_EQ(agree({.min_version = 1, .max_version = 1}, {.min_version = 2, .max_version = 3}).error(),
            ErrorCode::kProtocolMismatch);
  EXPECT_EQ(agree({.min_version = 4, .max_version = 5}, {.min_version = 2, .max_version = 3}).error(),
            ErrorCode::kProtocolMismatch);
}

}  // namespace
}  // namespace yonder::fabric
