#include "yonder/telemetry/metric.h"

#include <gtest/gtest.h>

#include "yonder/telemetry/histogram_buckets.h"

namespace yonder::telemetry {
namespace {

bool valid(std::string name, MetricType type, Unit unit = Unit::kNone, std::vector<Label> labels = {}) {
  return validate({.name = std::move(name), .help = "Help.", .labels = std::move(labels), .unit = unit}, type)
      .has_value();
}

TEST(MetricName, AcceptsNamesThatFollowTheRules) {
  EXPECT_TRUE(valid("yonder_fabric_reads_total", MetricType::kCounter));
  EXPECT_TRUE(valid("yonder_fabric_read_bytes_total", MetricType::kCounter, Unit::kBytes));
  EXPECT_TRUE(valid("yonder_node_busy_seconds_total", MetricType::kCounter, Unit::kSeconds));
  EXPECT_TRUE(valid("yonder_node_free_bytes", MetricType::kGauge, Unit::kBytes));
  EXPECT_TRUE(valid("yonder_rpc_latency_seconds", MetricType::kHistogram, Unit::kSeconds));
  EXPECT_TRUE(valid("yonder_rpc_depth", MetricType::kHistogram));
}

TEST(MetricName, TotalIsForCountersOnly) {
  EXPECT_FALSE(valid("yonder_fabric_reads", MetricType::kCounter));
  EXPECT_FALSE(valid("yonder_fabric_reads_total", MetricType::kGauge));
  EXPECT_FALSE(valid("yonder_latency_seconds_total", MetricType::kHistogram, Unit::kSeconds));
}

TEST(MetricName, UnitsAreBaseUnitsAndSaidInTheName) {
  for (const char* name : {"yonder_latency_ms", "yonder_latency_us", "yonder_latency_milliseconds",
                           "yonder_size_kib", "yonder_size_megabytes", "yonder_cpu_percent"})
    EXPECT_FALSE(valid(name, MetricType::kGauge)) << name;
  EXPECT_FALSE(valid("yonder_latency_seconds", MetricType::kHistogram, Unit::kNone));
  EXPECT_FALSE(valid("yonder_latency", MetricType::kHistogram, Unit::kSeconds));
  EXPECT_FALSE(valid("yonder_latency_seconds", MetricType::kHistogram, Unit::kBytes));
}

TEST(MetricName, RefusesStrangeNames) {
  for (const char* name :
       {"", "yonder_", "fabric_reads", "yonder_Reads", "yonder_reads-x", "yonder_a__b", "yonder_a_",
        "yonder_requests_count", "yonder_requests_sum", "yonder_requests_bucket"})
    EXPECT_FALSE(valid(name, MetricType::kGauge)) << name;
  EXPECT_FALSE(valid("yonder_" + std::string(kMaxNameBytes, 'x'), MetricType::kGauge));
}

TEST(MetricName, ChecksLabelsAndHelp) {
  const auto with = [](std::vector<Label> labels) {
    return valid("yonder_x", MetricType::kGauge, Unit::kNone, labels);
  };
  EXPECT_TRUE(with({{"provider", "shm"}, {"path", "any \"text\"\n"}}));
  EXPECT_FALSE(with({{"", "x"}}));
  EXPECT_FALSE(with({{"Provider", "x"}}));
  EXPECT_FALSE(with({{"1st", "x"}}));
  EXPECT_FALSE(with({{"le", "x"}}));
  EXPECT_FALSE(with({{"a", "x"}, {"a", "y"}}));
  EXPECT_FALSE(with({{"a", std::string(kMaxLabelValueBytes + 1, 'x')}}));
  EXPECT_FALSE(with(std::vector<Label>(kMaxLabels + 1, Label{"a", "x"})));
  EXPECT_FALSE(validate({.name = "yonder_x", .help = ""}, MetricType::kGauge).has_value());
}

TEST(HistogramBuckets, EveryValueIsAboveTheLastBoundAndUpToItsOwn) {
  for (std::uint64_t power = 0; power <= 40; ++power) {
    for (const std::uint64_t near : {0u, 1u, 2u, 3u}) {
      const std::uint64_t value = std::min((std::uint64_t{1} << power) + near, kHistogramMax);
      const std::size_t bucket = histogram_bucket(value);
      EXPECT_LE(value, histogram_upper(bucket));
      EXPECT_TRUE(bucket == 0 || value > histogram_upper(bucket - 1));
      EXPECT_LE(histogram_upper(bucket), value + value / 4 + 1) << "known to within a quarter";
    }
  }
  EXPECT_EQ(histogram_bucket(0), 0u);
  EXPECT_EQ(histogram_bucket(~std::uint64_t{0}), kHistogramBuckets - 1);
}

}  // namespace
}  // namespace yonder::telemetry
