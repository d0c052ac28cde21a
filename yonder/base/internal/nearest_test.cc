#include "yonder/base/internal/nearest.h"

#include <gtest/gtest.h>

#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::internal {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("depth", "dpeth"), 1u);
  EXPECT_EQ(edit_distance("depth", "dept"), 1u);
  EXPECT_EQ(edit_distance("depth", "deepth"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, IsSymmetricAndBoundedByTheLongerWord) {
  Prng prng(testing::test_seed());
  const auto word = [&] {
    std::string text(prng.below(8), 'a');
    for (char& c : text) c = static_cast<char>('a' + prng.below(3));
    return text;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string a = word();
    const std::string b = word();
    const std::size_t distance = edit_distance(a, b);
    EXPECT_EQ(distance, edit_distance(b, a)) << a << ' ' << b;
    EXPECT_LE(distance, std::max(a.size(), b.size()));
    EXPECT_EQ(distance == 0, a == b);
  }
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  const std::vector<std::string> known = {"fabric.depth", "fabric.provider", "node.port"};
  EXPECT_EQ(nearest("fabric.dpeth", known), "fabric.depth");
  EXPECT_EQ(nearest("node.prot", known), "node.port");
}

TEST(Nearest, KnowsThatSectionsAreForgotten) {
  const std::vector<std::string> known = {"--fabric.depth", "--node.port"};
  EXPECT_EQ(nearest("--port", known), "--node.port");
}

TEST(Nearest, DoesNotGuessWildly) {
  const std::vector<std::string> known = {"fabric.depth", "node.port"};
  EXPECT_EQ(nearest("colour", known), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), known), "");
  EXPECT_EQ(suggestion("colour", known), "");
  EXPECT_EQ(suggestion("node.prt", known), "; did you mean node.port?");
}

}  // namespace
}  // namespace yonder::internal
