#include "bench/fragmentation/traces_bench.h"

#include <charconv>
#include <string>

#include "bench/fragmentation/comparison.h"

namespace yonder::bench {
namespace {

constexpr std::uint32_t kMaxThreads = 64;
constexpr std::uint32_t kGeneratedObjects = 100'000;

template <typename Target>
Result<void> apply(Target& target, const TraceRecord& record) {
  if (record.op == TraceRecord::Op::kAlloc) return target.allocate(record.object, record.bytes);
  return target.free(record.object);
}

Result<std::uint32_t> threads_of(const Options& options) {
  const auto text = options.parameters.find("threads");
  if (text == options.parameters.end()) return TracesCase{}.threads;
  std::uint32_t threads = 0;
  const char* end = text->second.data() + text->second.size();
  const auto parsed = std::from_chars(text->second.data(), end, threads);
  if (parsed.ec != std::errc() || parsed.ptr != end || threads == 0 || threads > kMaxThreads) {
    return fail(ErrorCode::kInvalidArgument, "--threads: 1 to 64");
  }
  return threads;
}

}  // namespace

Result<void> measure_trace(std::span<const TraceRecord> trace, const TracesCase& wanted, Report& report) {
  YONDER_TRY(comparison, Comparison::create({.threads = wanted.threads, .seed = wanted.seed}));
  std::size_t worst = 0;
  std::uint64_t most_unused = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    YONDER_TRY_VOID(apply(comparison, trace[i]));
    if (comparison.unused_bytes() <= most_unused) continue;
    most_unused = comparison.unused_bytes();
    worst = i;
  }
  comparison.report("", report);

  YONDER_TRY(ours, HeapReplay::create({.threads = wanted.threads, .seed = wanted.seed}));
  for (std::size_t i = 0; i <= worst && i < trace.size(); ++i) YONDER_TRY_VOID(apply(ours, trace[i]));
  ours.compact();
  const Footprint then = ours.footprint();
  report.result("worst_moment", static_cast<double>(worst));
  report.result("active_bytes_ours_worst", static_cast<double>(then.active_bytes));
  report.result("live_bytes_worst", static_cast<double>(then.live_bytes));
  const double vs_ideal = static_cast<double>(then.active_bytes) / static_cast<double>(then.ideal_bytes);
  report.ratio("active_vs_ideal_worst", std::span(&vs_ideal, 1));
  const double vs_live = static_cast<double>(then.active_bytes) / static_cast<double>(then.live_bytes);
  report.ratio("active_vs_live_worst", std::span(&vs_live, 1));
  return {};
}

Result<void> run_traces_bench(const Options& options, Report& report) {
  YONDER_TRY(threads, threads_of(options));
  const auto path = options.parameters.find("trace");
  const bool given = path != options.parameters.end();
  YONDER_TRY(trace, given
                        ? read_trace(path->second)
                        : Result<std::vector<TraceRecord>>(generate_trace(kGeneratedObjects, options.seed)));
  report.param("trace", given ? path->second : "generated");
  report.param("threads", threads);
  report.param("operations", static_cast<double>(trace.size()));
  return measure_trace(trace, {.threads = threads, .seed = options.seed}, report);
}

}  // namespace yonder::bench
