#include <gtest/gtest.h>

#include <map>

#include "yonder/base/prng.h"
#include "yonder/fabric/shm/internal/key_table.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::shm {
namespace {

TEST(KeyTableModel, BehavesLikeAMap) {
  Prng random(::yonder::testing::test_seed());
  KeyTable table;
  std::map<std::uint64_t, std::uint64_t> model;
  // Few distinct keys with equal high bits: long probe sequences, many reuses.
  const auto some_key = [&] { return 1 + random.below(300); };
  for (int step = 0; step < 100'000; ++step) {
    const std::uint64_t key = some_key();
    switch (random.below(4)) {
      case 0: {
        const std::uint64_t length = random();
        table.insert({.key = key, .length = length}, {});
        model[key] = length;
        break;
      }
      case 1:
        table.erase(RegionKey{key});
        model.erase(key);
        break;
      default: {
        const Attachment* const found = table.find(RegionKey{key});
        const auto expected = model.find(key);
        ASSERT_EQ(found != nullptr, expected != model.end());
        ASSERT_TRUE(found == nullptr || found->length == expected->second);
      }
    }
    ASSERT_EQ(table.size(), model.size());
  }
  table.clear();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.find(RegionKey{1}), nullptr);
}

TEST(KeyTableModel, HoldsAHundredThousandRegions) {
  Prng random(::yonder::testing::test_seed());
  KeyTable table;
  std::vector<std::uint64_t> keys(100'000);
  for (std::uint64_t& key : keys) {
    key = random() | 1;
    table.insert({.key = key, .length = key}, {});
  }
  for (const std::uint64_t key : keys) {
    const Attachment* const found = table.find(RegionKey{key});
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(found->length, key);
  }
}

}  // namespace
}  // namespace yonder::fabric::shm
