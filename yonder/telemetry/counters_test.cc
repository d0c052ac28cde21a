#include "yonder/telemetry/counters.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace yonder::telemetry {
namespace {

const MetricOptions kReads{.name = "yonder_test_reads_total", .help = "Reads."};
const MetricOptions kLevel{.name = "yonder_test_level", .help = "Level."};
const MetricOptions kLatency{
    .name = "yonder_test_latency_seconds", .help = "Latency.", .unit = Unit::kSeconds};

TEST(Counters, AddUp) {
  Registry registry;
  const Counter reads = registry.counter(kReads).value();
  reads.add();
  reads.add(41);
  EXPECT_EQ(registry.snapshot()[0].counter, 42u);
}

TEST(Counters, CountsOfThreadsThatEndedStay) {
  Registry registry;
  const Counter reads = registry.counter(kReads).value();
  for (int i = 0; i < 10; ++i) std::thread([&] { reads.add(7); }).join();
  EXPECT_EQ(registry.snapshot()[0].counter, 70u);
}

TEST(Counters, ThreadsBeyondTheLimitAreCountedToo) {
  Registry registry({.max_threads = 1});
  const Counter reads = registry.counter(kReads).value();
  reads.add();
  std::thread([&] { reads.add(5); }).join();
  EXPECT_EQ(registry.snapshot()[0].counter, 6u);
}

TEST(Counters, AThreadMayUseSeveralRegistries) {
  Registry first;
  Registry second;
  const Counter a = first.counter(kReads).value();
  const Counter b = second.counter(kReads).value();
  for (int i = 0; i < 5; ++i) {
    a.add(1);
    b.add(10);
  }
  EXPECT_EQ(first.snapshot()[0].counter, 5u);
  EXPECT_EQ(second.snapshot()[0].counter, 50u);
}

TEST(Counters, AThreadMayOutliveARegistryItCountedIn) {
  std::optional<Registry> registry(std::in_place);
  registry->counter(kReads).value().add();
  registry.reset();
  registry.emplace();
  const Counter reads = registry->counter(kReads).value();
  reads.add(2);
  EXPECT_EQ(registry->snapshot()[0].counter, 2u) << "counts of the old registry must not show up";
}

// Counting from a destructor that runs while the thread ends.
struct CountsAtExit {
  const Counter* counter = nullptr;
  ~CountsAtExit() {
    if (counter != nullptr) counter->add(100);
  }
};
thread_local CountsAtExit counts_at_exit;

TEST(Counters, CountingWhileAThreadEndsIsNotLost) {
  Registry registry;
  const Counter reads = registry.counter(kReads).value();
  std::thread([&] {
    counts_at_exit.counter = &reads;  // Constructed first, so destroyed after the thread's cells.
    reads.add(1);
  }).join();
  EXPECT_EQ(registry.snapshot()[0].counter, 101u);
}

TEST(Counters, TheSameNameAndLabelsAreTheSameMetric) {
  Registry registry;
  registry.counter(kReads).value().add();
  registry.counter(kReads).value().add();
  MetricOptions labelled = kReads;
  labelled.labels = {{"provider", "shm"}};
  registry.gauge(kLevel).value().set(3);
  registry.counter(labelled).value().add(5);
  const auto values = registry.snapshot();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0].counter, 2u);
  EXPECT_EQ(values[1].labels[0].value, "shm") << "a family stands together";
  EXPECT_EQ(values[1].counter, 5u);
  EXPECT_EQ(values[2].gauge, 3);
}

TEST(Counters, ANameHasOneTypeUnitAndHelp) {
  Registry registry;
  ASSERT_TRUE(registry.gauge(kLevel));
  EXPECT_EQ(registry.histogram(kLevel).error(), ErrorCode::kAlreadyExists);
  MetricOptions other = kLevel;
  other.help = "Something else.";
  EXPECT_EQ(registry.gauge(other).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(registry.counter(kLevel).error(), ErrorCode::kInvalidArgument);
}

TEST(Counters, MetricsAndCellsAreBounded) {
  Registry few({.max_metrics = 1});
  ASSERT_TRUE(few.counter(kReads));
  EXPECT_EQ(few.gauge(kLevel).error(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(few.counter(kReads)) << "one that exists is still found";
  Registry small({.max_cells = kHistogramBuckets});
  EXPECT_EQ(small.histogram(kLatency).error(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(small.counter(kReads));
}

TEST(Gauges, AreSetAndMoved) {
  Registry registry;
  const Gauge level = registry.gauge(kLevel).value();
  level.set(-5);
  std::thread([&] { level.add(3); }).join();
  EXPECT_EQ(registry.snapshot()[0].gauge, -2);
}

TEST(Histograms, KeepTheDistributionAndTheSum) {
  Registry registry;
  const HistogramMetric latency = registry.histogram(kLatency).value();
  for (std::uint64_t ns = 1; ns <= 1000; ++ns) latency.record(ns * 1000);
  std::thread([&] { latency.record(0); }).join();
  const MetricValue value = registry.snapshot()[0];
  EXPECT_EQ(value.sum, 500'500'000u);
  const Histogram histogram = value.to_histogram();
  EXPECT_EQ(histogram.count(), 1001u);
  EXPECT_NEAR(static_cast<double>(histogram.percentile(50)), 500'000, 125'000);
  EXPECT_NEAR(static_cast<double>(histogram.percentile(99)), 990'000, 250'000);
}

}  // namespace
}  // namespace yonder::telemetry
