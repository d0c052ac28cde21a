#include "yonder/base/secure_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace yonder {
namespace {

TEST(SecureRandom, NeverRepeatsAKey) {
  std::set<std::uint64_t> keys;
  for (int i = 0; i < 1000; ++i) keys.insert(secure_random_u64().value());
  EXPECT_EQ(keys.size(), 1000u);
}

TEST(SecureRandom, FillsEveryByteOfALongBuffer) {
  // Bits that are set in some of 64 fills: a byte that is never written keeps a zero bit.
  std::vector<std::byte> seen(5000);
  std::vector<std::byte> bytes(seen.size());
  for (int round = 0; round < 64; ++round) {
    std::ranges::fill(bytes, std::byte{0});
    ASSERT_TRUE(secure_random_fill(bytes).has_value());
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] |= bytes[i];
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](std::byte b) { return b == std::byte{0xff}; }));
}

TEST(SecureRandom, FillingNothingSucceeds) { EXPECT_TRUE(secure_random_fill({}).has_value()); }

}  // namespace
}  // namespace yonder
