#include "yonder/fabric/sim/internal/metadata_cache.h"

#include <gtest/gtest.h>

namespace yonder::fabric::sim {
namespace {

TEST(MetadataCache, KeepsTheMostRecentlyUsedOfASet) {
  MetadataCache cache(8);  // One set.
  for (std::uint64_t tag = 1; tag <= 8; ++tag) EXPECT_FALSE(cache.touch(tag));
  EXPECT_TRUE(cache.touch(1));   // Now the newest; 2 is the oldest.
  EXPECT_FALSE(cache.touch(9));  // Takes 2's place.
  EXPECT_TRUE(cache.touch(1));
  EXPECT_TRUE(cache.touch(3));
  EXPECT_FALSE(cache.touch(2));
  EXPECT_EQ(cache.hits(), 3u);
  EXPECT_EQ(cache.misses(), 10u);
}

TEST(MetadataCache, HoldsNearlyAllOfHalfItsSize) {
  MetadataCache cache(1024);
  for (std::uint64_t tag = 1; tag <= 512; ++tag) cache.touch(tag);
  std::uint64_t found = 0;
  for (std::uint64_t tag = 1; tag <= 512; ++tag) found += cache.touch(tag) ? 1 : 0;
  EXPECT_GT(found, 490u);
}

TEST(MetadataCache, AScanBeyondItsSizeFindsLittle) {
  MetadataCache cache(64);
  for (int round = 0; round < 4; ++round) {
    for (std::uint64_t tag = 1; tag <= 1024; ++tag) cache.touch(tag);
  }
  EXPECT_LT(cache.hits(), 40u);
}

TEST(MetadataCache, ForgetsWhenCleared) {
  MetadataCache cache(64);
  cache.touch(5);
  cache.clear();
  EXPECT_FALSE(cache.touch(5));
}

}  // namespace
}  // namespace yonder::fabric::sim
