#include "yonder/base/histogram_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Columns on a terminal: bytes that do not continue a UTF-8 character.
int columns_of(const std::string& line) {
  return static_cast<int>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(HistogramReport, TableHasALinePerHistogramInHumanUnits) {
  Histogram fast;
  Histogram slow;
  fast.record_n(250, 1'000'000);
  slow.record_n(1'500'000, 10);
  const HistogramRow rows[] = {{"shm read 64 B", fast}, {"tcp read 64 B", slow}};
  const auto lines = lines_of(render_table(rows, HistogramUnit::kNanoseconds));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("p99.99"), std::string::npos);
  EXPECT_TRUE(lines[1].starts_with("shm read 64 B"));
  EXPECT_NE(lines[1].find("250 ns"), std::string::npos);
  EXPECT_NE(lines[1].find("1 M"), std::string::npos);
  EXPECT_NE(lines[2].find("1.5 ms"), std::string::npos);
  EXPECT_EQ(columns_of(lines[0]), columns_of(lines[1]));
  EXPECT_EQ(columns_of(lines[1]), columns_of(lines[2]));
}

TEST(HistogramReport, TableTakesBytesAndCounts) {
  Histogram sizes;
  sizes.record(4096);
  const HistogramRow rows[] = {{"size", sizes}};
  EXPECT_NE(render_table(rows, HistogramUnit::kBytes).find("4 KiB"), std::string::npos);
  EXPECT_NE(render_table(rows, HistogramUnit::kCount).find("4.1 k"), std::string::npos);
}

TEST(HistogramReport, BarsFitTheirRoomAndAddUpToEverything) {
  Prng prng(testing::test_seed());
  for (int round = 0; round < 50; ++round) {
    Histogram histogram;
    const std::uint64_t values = prng.between(1, 500);
    for (std::uint64_t i = 0; i < values; ++i) histogram.record(prng() >> prng.between(20, 63));
    const HistogramBarOptions options{.rows = static_cast<int>(prng.between(1, 20)),
                                      .columns = static_cast<int>(prng.between(40, 100))};
    const auto lines = lines_of(render_bars(histogram, options));
    EXPECT_LE(static_cast<int>(lines.size()), options.rows);
    double percent = 0;
    for (const std::string& line : lines) {
      EXPECT_LE(columns_of(line), options.columns) << line;
      percent += std::strtod(line.c_str() + line.find('%') - 7, nullptr);
    }
    EXPECT_NEAR(percent, 100, 0.01 * static_cast<double>(lines.size()));
  }
}

TEST(HistogramReport, BarsOfNothingSaySo) { EXPECT_EQ(render_bars(Histogram()), "(nothing recorded)\n"); }

TEST(HistogramReport, AnOutlierDoesNotFlattenTheRest) {
  Histogram histogram;
  for (std::uint64_t value = 1000; value < 11'000; ++value) histogram.record(value);
  histogram.record(3'000'000'000);
  const auto lines = lines_of(render_bars(histogram));
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_NE(lines.back().find("3 s"), std::string::npos);
  const auto with_bar =
      std::ranges::count_if(lines, [](const auto& line) { return line.find("█") != std::string::npos; });
  EXPECT_GE(with_bar, 10);
}

TEST(HistogramReport, JsonCarriesTheNumbersUnrounded) {
  Histogram histogram({.significant_digits = 4, .max_value = 5000});
  for (std::uint64_t value = 1; value <= 1000; ++value) histogram.record(value);
  histogram.record(9999);
  const auto json = nlohmann::json::parse(to_json(histogram));
  EXPECT_EQ(json["count"], 1001);
  EXPECT_EQ(json["min"], 1);
  EXPECT_EQ(json["max"], 5000);
  EXPECT_EQ(json["clamped"], 1);
  EXPECT_EQ(json["p50"], 501);
  EXPECT_EQ(json["p99.9"], 1000);
  EXPECT_DOUBLE_EQ(json["mean"], (500'500.0 + 5000) / 1001);
  EXPECT_GT(json["stddev"], 280);
}

}  // namespace
}  // namespace yonder
