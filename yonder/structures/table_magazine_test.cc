// Magazines: nothing is lost in them, and bytes that are none are refused.
#include "yonder/structures/internal/table_magazine.h"

#include <gtest/gtest.h>

#include <set>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::internal {
namespace {

constexpr std::uint64_t kRegion = std::uint64_t{1} << 30;

std::vector<Place> random_places(Prng& random, std::size_t count) {
  std::vector<Place> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back({.image_class = static_cast<std::uint32_t>(random.below(kImageClasses)),
                   .tag = static_cast<std::uint32_t>(random.below(BucketWord::kTags)),
                   .offset = TableShape::kSpaceBegin + i * kMaxImageBytes});
  }
  return out;
}

TEST(TableMagazine, HoldsEveryPlaceOnceAndLeadsToTheNext) {
  Prng random(testing::test_seed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<Place> places = random_places(random, 1 + random.below(300));
    const std::vector<Magazine> magazines = Magazine::fill(places);
    std::set<std::uint64_t> offsets;
    for (std::size_t i = 0; i < magazines.size(); ++i) {
      const std::vector<std::byte> bytes = magazines[i].bytes();
      ASSERT_LE(bytes.size(), kImageBytes[magazines[i].home().image_class]) << "fits into its home";
      const auto parsed = Magazine::parse(magazines[i].name(), bytes, kRegion);
      ASSERT_TRUE(parsed);
      EXPECT_EQ(parsed->next, i + 1 < magazines.size() ? magazines[i + 1].name() : 0);
      for (const Place& place : parsed->places) {
        EXPECT_TRUE(offsets.insert(place.offset).second) << "twice";
        const Place& original = places[(place.offset - TableShape::kSpaceBegin) / kMaxImageBytes];
        EXPECT_EQ(place.tag, original.tag);
        EXPECT_EQ(place.image_class, original.image_class);
      }
    }
    EXPECT_EQ(offsets.size(), places.size());
  }
}

TEST(TableMagazine, RefusesBytesThatAreNone) {
  Prng random(testing::test_seed());
  const Magazine magazine = Magazine::fill(random_places(random, 4)).front();
  const std::vector<std::byte> good = magazine.bytes();
  ASSERT_TRUE(Magazine::parse(magazine.name(), good, kRegion));
  EXPECT_FALSE(Magazine::parse(magazine.name() + 1, good, kRegion)) << "of another place";
  EXPECT_FALSE(Magazine::parse(magazine.name(), good, 4096)) << "places beyond the memory";
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_FALSE(Magazine::parse(magazine.name(), bad, kRegion)) << "byte " << i;
    EXPECT_FALSE(Magazine::parse(magazine.name(), std::span(good).first(i), kRegion)) << "cut at " << i;
  }
}

}  // namespace
}  // namespace yonder::structures::internal
