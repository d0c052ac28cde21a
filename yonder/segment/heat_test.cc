#include "yonder/segment/internal/heat.h"

#include <gtest/gtest.h>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::segment::internal {
namespace {

constexpr std::size_t kRegions = 128;
constexpr std::size_t kPages = kRegions * Heat::kRegionPages;

// A map: every second touch is of its table, which has few pages, the others of its nodes.
TEST(Heat, IsWhereTouchesAreFarMoreThanTheAverage) {
  Prng prng(testing::test_seed());
  Heat heat(kPages);
  constexpr std::size_t kTable = 4 * Heat::kRegionPages;
  int hot_table = 0;
  int hot_nodes = 0;
  for (int i = 0; i < 2000; ++i) {
    hot_table += heat.note(prng.below(kTable)) ? 1 : 0;
    hot_nodes += heat.note(kTable + prng.below(kPages - kTable)) ? 1 : 0;
  }
  EXPECT_GT(hot_table, 1900);
  EXPECT_LT(hot_nodes, 100);
}

TEST(Heat, IsNowhereWhereTouchesAreEven) {
  Heat heat(kPages);
  int hot = 0;
  for (std::size_t i = 0; i < 20 * kRegions; ++i) hot += heat.note(i * Heat::kRegionPages % kPages) ? 1 : 0;
  EXPECT_EQ(hot, 0);
}

TEST(Heat, IsNotInASegmentOfOneRegion) {
  Heat heat(16);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(heat.note(3));
}

}  // namespace
}  // namespace yonder::segment::internal
