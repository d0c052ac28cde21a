#include "yonder/heap/heap_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "yonder/heap/huge.h"
#include "yonder/heap/test_support.h"
#include "yonder/heap/unique_ptr.h"
#include "yonder/telemetry/prometheus.h"

// A fault is a synchronous signal: what its handler does is as safe as a call would be.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

// The value of a series in the text, as a scraper reads it; -1: it is not there.
double value_of(const telemetry::Registry& registry, const std::string& series) {
  std::istringstream text(telemetry::to_prometheus(registry.snapshot()));
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
  return -1;
}

// Twenty times the local memory, written once and read twice.
void use_objects() {
  std::vector<unique_ptr<std::array<std::uint64_t, 8>>> lines;
  for (std::size_t i = 0; i < kMuchDataBytes / 64; ++i)
    lines.push_back(make_unique<std::array<std::uint64_t, 8>>());
  for (int round = 0; round < 2; ++round)
    for (const auto& line : lines) ASSERT_EQ(line.read()->at(0), 0u);
}

void use_huge() {
  const auto bytes = make_huge<std::byte[]>(kMuchDataBytes);
  std::ranges::fill(bytes, std::byte{1});
  ASSERT_EQ(std::ranges::count(bytes, std::byte{1}), static_cast<std::ptrdiff_t>(bytes.size()));
}

TEST(HeapMetrics, ShowsWhatTheHeapCounts) {
  telemetry::Registry registry;
  const auto heap = make_huge_heap();
  const auto metrics = HeapMetrics::create(registry, *heap);
  ASSERT_TRUE(metrics) << metrics.error().to_string();
  (*metrics)->update();
  EXPECT_EQ(value_of(registry, "yonder_heap_local_bytes"), kSmallHeapBytes);
  EXPECT_EQ(value_of(registry, "yonder_heap_fetches_total{path=\"page\"}"), 0);
  use_objects();
  use_huge();
  (*metrics)->update();
  const HeapStats stats = heap->stats();
  const auto shows = [&](const std::string& series, std::uint64_t value) {
    EXPECT_EQ(value_of(registry, "yonder_heap_" + series), static_cast<double>(value)) << series;
  };
  // Nothing is used now, so nothing is counted meanwhile but what the janitor does.
  shows("hits_total", stats.hits);
  shows("fetches_total{path=\"page\"}", stats.page_ins);
  shows("fetches_total{path=\"object\"}", stats.object_ins);
  shows("fetches_total{path=\"read_ahead\"}", stats.read_ahead);
  shows("read_ahead_used_total", stats.read_ahead_used);
  shows("fetched_bytes_total", stats.bytes_in);
  shows("wanted_bytes_total", stats.bytes_wanted);
  shows("flips_total{to=\"page\"}", stats.flips_to_page);
  shows("flips_total{to=\"object\"}", stats.flips_to_object);
  shows("stalls_total", stats.stalls);
  EXPECT_GT(stats.hits, 0u);
  EXPECT_GT(stats.page_ins + stats.object_ins, 0u);
  for (const char* series : {"evictions_total{what=\"written_page\"}", "fetched_bytes_total",
                             "egress_seconds_total", "metadata_bytes", "huge_faults_total{kind=\"missing\"}",
                             "huge_fetched_pages_total", "huge_ahead_pages_total", "huge_fresh_pages_total",
                             "huge_left_pages_total", "huge_written_pages_total", "huge_budget_bytes"})
    EXPECT_GT(value_of(registry, std::string("yonder_heap_") + series), 0) << series;
  for (const char* series :
       {"evictions_total{what=\"dropped_page\"}", "evictions_total{what=\"object\"}", "evacuated_pages_total",
        "healed_pointers_total", "free_bytes", "live_pages", "huge_stalls_total", "huge_resident_bytes"})
    EXPECT_GE(value_of(registry, std::string("yonder_heap_") + series), 0) << series;
}

TEST(HeapMetrics, AddsUpOverHeapsAndUpdates) {
  telemetry::Registry registry;
  double before = 0;
  for (int round = 0; round < 2; ++round) {
    const auto heap = make_huge_heap();
    const auto metrics = HeapMetrics::create(registry, *heap).value();
    use_huge();
    const auto faults = static_cast<double>(heap->huge_stats().faults);
    metrics->update();
    metrics->update();
    EXPECT_EQ(value_of(registry, "yonder_heap_huge_faults_total{kind=\"missing\"}"), before + faults);
    before += faults;
  }
}

TEST(HeapMetrics, SaysWhenTheRegistryIsFull) {
  telemetry::Registry registry({.max_metrics = 5});
  const auto heap = make_huge_heap();
  const auto metrics = HeapMetrics::create(registry, *heap);
  ASSERT_FALSE(metrics);
  EXPECT_EQ(metrics.error(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace yonder::heap
