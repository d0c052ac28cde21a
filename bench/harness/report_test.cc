#include "bench/harness/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/harness/benchmark.h"
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

TEST(Report, SaysWhichFiguresAreSimulated) {
  Report report("demo");
  report.set_simulated(true);
  report.result("sim_mops", 1);
  report.ratio("sim_ratio", 2, 0);
  auto json = nlohmann::json::parse(report.to_json());
  EXPECT_EQ(json["simulated"], true);
  EXPECT_FALSE(json.contains("simulated_keys"));
  report.set_simulated(false);
  report.result("shm_mops", 1);
  json = nlohmann::json::parse(report.to_json());
  EXPECT_EQ(json["simulated"], false);
  EXPECT_EQ(json["simulated_keys"], (std::vector<std::string>{"sim_mops", "sim_ratio"}));
  EXPECT_NE(report.to_text().find("simulated"), std::string::npos);
}

TEST(Report, WithoutFiguresNothingIsSimulated) {
  Report report("demo");
  report.set_simulated(true);
  EXPECT_EQ(nlohmann::json::parse(report.to_json())["simulated"], false);
}

TEST(Providers, AreThoseThatWereAskedForAndOnlySimIsSimulated) {
  Report report("demo");
  const auto add = [&](const std::string& provider) -> Result<void> {
    report.result(provider + "_mops", 1);
    return {};
  };
  ASSERT_TRUE(for_providers({.fabric = "tcp"}, report, {"sim", "shm", "tcp"}, add));
  EXPECT_EQ(report.results().size(), 1u);
  ASSERT_TRUE(for_providers({}, report, {"sim", "shm", "tcp"}, add));
  const auto json = nlohmann::json::parse(report.to_json());
  EXPECT_EQ(json["results"].size(), 3u);
  EXPECT_EQ(json["simulated_keys"], (std::vector<std::string>{"sim_mops"}));
  EXPECT_EQ(key_prefix({}, "sim"), "");
  EXPECT_EQ(key_prefix({}, "tcp"), "tcp_");
  EXPECT_EQ(key_prefix({.fabric = "tcp"}, "tcp"), "");
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
