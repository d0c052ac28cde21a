// The claims of the benchmarks, in small: ours is at the ideal, and nobody is below.
#include "bench/fragmentation/comparison.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "bench/fragmentation/fragmentation_bench.h"
#include "bench/fragmentation/traces_bench.h"
#include "yonder/os/fd.h"
#include "yonder/testing/seed.h"

namespace yonder::bench {
namespace {

void expect_at_the_ideal(const Report& report, const std::string& suffix) {
  EXPECT_LE(report.ratio_of("active_vs_ideal" + suffix), 1.02);
  EXPECT_GE(report.ratio_of("active_vs_ideal" + suffix), 1.0) << "nothing can be below";
  for (const char* strategy : {"mesh", "corm16", "hybrid16", "none"}) {
    EXPECT_LE(report.ratio_of(std::string("active_vs_") + strategy + suffix), 1.02) << strategy;
  }
}

TEST(Fragmentation, OursIsAtTheIdeal) {
  Report report("fragmentation");
  for (const std::uint32_t bytes : {32u, 2048u}) {
    ASSERT_TRUE(measure_fragmentation({.object_bytes = bytes, .freed = 0.6, .objects = 20'000}, report));
  }
  expect_at_the_ideal(report, "_32_60");
  expect_at_the_ideal(report, "_2048_60");
  EXPECT_LT(report.ratio_of("active_vs_mesh_2048_60_1mib"), 0.7) << "Mesh cannot merge these at all";
}

TEST(Traces, OursIsAtTheIdealWithManyThreads) {
  const auto trace = generate_trace(30'000, ::yonder::testing::test_seed());
  for (const std::uint32_t threads : {1u, 32u}) {
    Report report("traces");
    ASSERT_TRUE(measure_trace(trace, {.threads = threads}, report));
    expect_at_the_ideal(report, "");
    EXPECT_LE(report.ratio_of("active_vs_ideal_worst"), 1.02);
    EXPECT_GT(report.results().at("active_bytes_ours_before"), report.results().at("active_bytes_ours"));
    std::uint64_t live = 0;
    for (const TraceRecord& record : trace) {
      if (record.op == TraceRecord::Op::kAlloc && record.object % 3 == 0) live += record.bytes;
    }
    EXPECT_EQ(report.results().at("live_bytes"), static_cast<double>(live));
  }
}

TEST(Traces, RunsOnAFile) {
  std::vector<std::byte> bytes;
  for (const TraceRecord& record : generate_trace(30'000, 1)) append_record(record, bytes);
  std::string path = (std::filesystem::temp_directory_path() / "yonder-trace-XXXXXX").string();
  const os::Fd file(::mkstemp(path.data()));
  ASSERT_TRUE(file.valid());
  ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  Report report("traces");
  EXPECT_TRUE(run_traces_bench({.parameters = {{"trace", path}, {"threads", "4"}}}, report));
  EXPECT_LE(report.ratio_of("active_vs_ideal"), 1.02);
  EXPECT_GT(report.ratio_of("active_vs_live"), 1.0);
  std::filesystem::remove(path);
}

TEST(Traces, SaysWhichParametersItWants) {
  Report report("traces");
  for (const char* threads : {"0", "65", "8x", ""}) {
    const Options options{.parameters = {{"trace", "none"}, {"threads", threads}}};
    EXPECT_EQ(run_traces_bench(options, report).error(), ErrorCode::kInvalidArgument) << threads;
  }
  EXPECT_EQ(run_traces_bench({.parameters = {{"trace", "/no/such/file"}}}, report).error(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace yonder::bench
