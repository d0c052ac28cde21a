// The build side of a join, and the choice of heavy keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/structures/internal/join_heavy.h"
#include "yonder/structures/internal/join_table.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::internal {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::multiset<std::string> values_of(const JoinTable& table, const std::string& key) {
  const ShuffleEntry row{.key = bytes_of(key)};
  JoinTable::Chain chain = nullptr;
  table.find_chains({&row, 1}, {&chain, 1});
  std::multiset<std::string> values;
  JoinTable::for_each(chain, row.key, [&](std::span<const std::byte> value) {
    values.emplace(text_of(value));
    return true;
  });
  return values;
}

// Any number of threads, rows larger than a chunk, keys that occur often: the same as a
// multimap.
TEST(JoinTable, HoldsWhatAMultimapHolds) {
  Prng random(testing::test_seed());
  for (const std::uint32_t threads : {0u, 1u, 3u}) {
    JoinTable table(threads, threads * 100);
    std::multimap<std::string, std::string> twin;
    const auto add = [&](const std::string& key, const std::string& value) {
      table.add({.key = bytes_of(key), .value = bytes_of(value)});
      twin.emplace(key, value);
    };
    const int rows = testing::scaled(20'000);
    for (int i = 0; i < rows; ++i) add(std::to_string(random.below(rows / 4)), std::to_string(i));
    for (int i = 0; i < rows; ++i) add("same", std::to_string(i));
    add("large", std::string(1 << 20, 'x'));
    add("", "");
    table.seal();
    EXPECT_EQ(table.rows(), twin.size());
    for (auto key = twin.begin(); key != twin.end(); key = twin.upper_bound(key->first)) {
      std::multiset<std::string> expected;
      for (auto [at, end] = twin.equal_range(key->first); at != end; ++at) expected.insert(at->second);
      ASSERT_EQ(values_of(table, key->first), expected) << key->first;
    }
    EXPECT_TRUE(values_of(table, "none").empty());
  }
}

TEST(JoinTable, StopsWhenAsked) {
  JoinTable table(0, 0);
  const std::string key = "k";
  for (int i = 0; i < 5; ++i) table.add({.key = bytes_of(key)});
  table.seal();
  const ShuffleEntry row{.key = bytes_of(key)};
  JoinTable::Chain chain = nullptr;
  table.find_chains({&row, 1}, {&chain, 1});
  int seen = 0;
  JoinTable::for_each(chain, row.key, [&](std::span<const std::byte>) { return ++seen < 2; });
  EXPECT_EQ(seen, 2);
}

ShuffleEntry entry_of(const HeavyAnnouncement& announcement) {
  return {.key = bytes_of(announcement.key), .value = std::as_bytes(std::span(&announcement.rows, 1))};
}

TEST(HeavyKeys, AreTheSameInWhateverOrderTheyAreHeard) {
  Prng random(testing::test_seed());
  std::vector<HeavyAnnouncement> announcements{{"t", 1000}, {"t", 3000}};
  for (int i = 0; i < 100; ++i)
    announcements.push_back({"k" + std::to_string(random.below(40)), random.below(200)});
  const HeavyKeyOptions options{.executors = 4, .heavy_share = 0.2, .max_keys = 10};
  HeavyKeys first(options);
  for (const auto& announcement : announcements) ASSERT_TRUE(first.hear(entry_of(announcement)));
  first.decide();
  EXPECT_LE(first.size(), 10u);
  for (int i = 0; i < 20; ++i) {
    for (std::size_t n = announcements.size(); n > 1; --n)
      std::swap(announcements[n - 1], announcements[random.below(n)]);
    HeavyKeys other(options);
    for (const auto& announcement : announcements) ASSERT_TRUE(other.hear(entry_of(announcement)));
    other.decide();
    ASSERT_EQ(other.size(), first.size());
    for (int key = 0; key < 40; ++key) {
      const std::string text = std::to_string(key);
      ASSERT_EQ(other.contains(bytes_of(text)), first.contains(bytes_of(text)));
    }
  }
}

TEST(HeavyKeys, AKeyIsHeavyFromItsShareOn) {
  HeavyKeys keys({.executors = 4, .heavy_share = 0.1, .max_keys = 10});
  // A fair share is 1,000 rows, a tenth of it 100.
  for (const HeavyAnnouncement& announcement :
       {HeavyAnnouncement{"t", 4000}, {"kheavy", 101}, {"klight", 100}})
    ASSERT_TRUE(keys.hear(entry_of(announcement)));
  keys.decide();
  const std::string heavy = "heavy";
  const std::string light = "light";
  EXPECT_TRUE(keys.contains(bytes_of(heavy)));
  EXPECT_FALSE(keys.contains(bytes_of(light)));
}

TEST(HeavyKeys, NonsenseIsNoAnnouncement) {
  HeavyKeys keys({});
  EXPECT_FALSE(keys.hear({}));
  EXPECT_FALSE(keys.hear(entry_of({"x", 1})));
  const std::string key = "kshort";
  EXPECT_FALSE(keys.hear({.key = bytes_of(key), .value = bytes_of(key)}));
}

TEST(HeavyKeys, ASampleSaysHowManyRowsAKeyHas) {
  const std::string often = "often";
  std::vector<std::string> names;
  for (int i = 0; i < 10'000; ++i) names.push_back(i % 4 == 0 ? often : std::to_string(i));
  const auto at = [&](std::uint64_t row) { return ShuffleEntry{.key = bytes_of(names[row])}; };
  const auto announcements = sample_heavy_keys(names.size(), 1000, at, 5);
  ASSERT_GE(announcements.size(), 2u);
  EXPECT_EQ(announcements[0].key, "t");
  EXPECT_EQ(announcements[0].rows, 10'000u);
  EXPECT_EQ(announcements[1].key, "koften");
  // A quarter of 10,000; the sample's standard deviation stands for 137 rows.
  EXPECT_NEAR(static_cast<double>(announcements[1].rows), 2'500, 822);
  EXPECT_EQ(sample_heavy_keys(names.size(), 0, at, 5).size(), 1u);
  EXPECT_EQ(sample_heavy_keys(0, 1000, at, 5).size(), 1u);
}

}  // namespace
}  // namespace yonder::structures::internal
