#include "bench/harness/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/harness/heap_counter.h"

namespace yonder::bench {
namespace {

TEST(Report, GivesMedianAndSpreadOfTheRounds) {
  Report report("demo");
  const double rounds[] = {1.0, 2.0, 3.0, 4.0, 5.0};
  report.ratio("ours_vs_theirs", rounds);
  EXPECT_DOUBLE_EQ(report.ratio_of("ours_vs_theirs"), 3.0);
  EXPECT_DOUBLE_EQ(report.spreads().at("ours_vs_theirs"), (4.0 - 2.0) / 3.0);
}

TEST(Report, WritesTheFixedKeys) {
  Report report("demo");
  report.result("count", 7);
  report.ratio("r", 0.5, 0.01);
  const auto json = nlohmann::json::parse(report.to_json());
  for (const char* key :
       {"bench", "version", "machine", "fabric", "simulated", "params", "results", "ratios", "spread"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["bench"], "demo");
  EXPECT_EQ(json["results"]["count"], 7);
  EXPECT_EQ(json["ratios"]["r"], 0.5);
}

TEST(Compare, AlternatesWhoGoesFirst) {
  std::string order;
  const auto ratios = compare(2, [&] { return order += 'a', 4.0; }, [&] { return order += 'b', 2.0; });
  EXPECT_EQ(order, "abba");
  EXPECT_EQ(ratios, (std::vector<double>{2.0, 2.0}));
}

TEST(HeapCounter, SeesAnAllocation) {
  if (!HeapCounter::available()) GTEST_SKIP() << "a sanitizer has its own malloc";
  const std::uint64_t before = HeapCounter::allocations();
  const auto memory = std::make_unique<std::vector<int>>(100);
  EXPECT_GE(HeapCounter::allocations(), before + 2);
}

}  // namespace
}  // namespace yonder::bench
