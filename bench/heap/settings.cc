#include "bench/heap/settings.h"

#include <charconv>
#include <string>

namespace yonder::bench::heap {
namespace {

// The number given for `key`, or `otherwise`.
Result<std::uint64_t> number(const Options& options, const std::string& key, std::uint64_t otherwise) {
  const auto given = options.parameters.find(key);
  if (given == options.parameters.end()) return otherwise;
  std::uint64_t value = 0;
  const std::string& text = given->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > (std::uint64_t{1} << 40))
    return fail(ErrorCode::kInvalidArgument, "heap bench: a --set that needs a number");
  return value;
}

Result<std::vector<const Workload*>> workloads_of(const Options& options) {
  std::vector<const Workload*> chosen;
  const auto given = options.parameters.find("workload");
  for (const Workload& workload : all_workloads())
    if (given == options.parameters.end() || given->second == workload.name) chosen.push_back(&workload);
  if (chosen.empty()) return fail(ErrorCode::kInvalidArgument, "heap bench: there is no such workload");
  return chosen;
}

}  // namespace

Result<Settings> Settings::read(const Options& options) {
  Settings settings;
  YONDER_TRY(workloads, workloads_of(options));
  settings.workloads = std::move(workloads);
  YONDER_TRY(local, number(options, "local", 0));
  if (local > 100) return fail(ErrorCode::kInvalidArgument, "heap bench: local is in percent");
  if (local != 0) {
    settings.locals = {static_cast<unsigned>(local)};
  } else if (options.quick) {
    settings.locals = {25, 100};
  } else {
    settings.locals = {13, 25, 50, 75, 100};
  }
  YONDER_TRY(bytes, number(options, "bytes", std::uint64_t{64} << (options.quick ? 20 : 24)));
  YONDER_TRY(threads, number(options, "threads", settings.work.threads));
  if (threads == 0 || threads > 64) return fail(ErrorCode::kInvalidArgument, "heap bench: 1 to 64 threads");
  settings.work.threads = static_cast<unsigned>(threads);
  YONDER_TRY(rounds, number(options, "rounds", options.quick ? 1 : 3));
  YONDER_TRY(faults, number(options, "faults", options.quick ? 0 : 1));
  settings.faults = faults != 0;
  YONDER_TRY(swap, number(options, "swap", options.quick ? 0 : 1));
  YONDER_TRY(latency, number(options, "latency", options.quick ? 0 : 1));
  settings.work.seed = options.seed;
  settings.work.bytes = bytes;
  settings.rounds = static_cast<int>(rounds);
  YONDER_TRY(sweep, number(options, "sweep", 1));
  settings.sweep = sweep != 0;
  settings.swap = swap != 0;
  settings.latency = latency != 0;
  return settings;
}

void Settings::describe(Report& report) const {
  report.param("bytes", static_cast<double>(work.bytes));
  report.param("rounds", rounds);
  report.param("threads", work.threads);
}

}  // namespace yonder::bench::heap
