#include <algorithm>
#include <utility>

#include "bench/migrate/experiments.h"
#include "bench/migrate/pair.h"
#include "yonder/base/histogram.h"
#include "yonder/base/prng.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

constexpr Duration kWindow = std::chrono::milliseconds(100);

double us(Duration duration) { return static_cast<double>(duration.count()) / 1e3; }

struct AccessReport {
  double p95_us = 0;   // of the worst window
  double mean_us = 0;  // of the first window
  double local_after_ms = 0;
  double wrong = 0;
};

// Gets in a tight loop from the moment the map is ours; the worst window's p95.
Result<AccessReport> access_after_receive(TargetSide& side) {
  YONDER_TRY(got, side.agent().receive(soon()));
  const Instant begin = os::SteadyClock::read();
  YONDER_TRY(box, segment::Migratable<MigrateMap>::adopt(side.agent(), got));
  AccessReport result;
  Prng prng(7);
  Instant window_end = begin + kWindow;
  Histogram latencies;
  for (bool first = true, arriving = true; arriving;) {
    const std::uint64_t key = prng.below(kMapEntries);
    const Instant before = os::SteadyClock::read();
    const auto found = box->find(key);
    const bool good = found != box->end() && found->second == value_of(key);
    const Instant after = os::SteadyClock::read();
    latencies.record(static_cast<std::uint64_t>((after - before).count()));
    result.wrong += good ? 0 : 1;
    if (after < window_end) continue;
    result.p95_us = std::max(result.p95_us, static_cast<double>(latencies.percentile(95)) / 1e3);
    if (std::exchange(first, false)) result.mean_us = latencies.mean() / 1e3;
    latencies.reset();
    arriving = !side.agent().migrations().empty() && after - begin < std::chrono::seconds(4);
    result.local_after_ms = us(after - begin) / 1e3;
    window_end = os::SteadyClock::read() + kWindow;
  }
  return result;
}

Result<AccessReport> measure_access(const std::string& provider, bool prefetch) {
  const PairOptions options{.provider = provider, .receive = {.prefetch = prefetch}, .pin = true};
  YONDER_TRY(pair, Pair::start(options, [&](TargetSide& side) -> Result<void> {
               YONDER_TRY(result, access_after_receive(side));
               YONDER_TRY_VOID(side.line().say(result.p95_us));
               YONDER_TRY_VOID(side.line().say(result.mean_us));
               YONDER_TRY_VOID(side.line().say(result.local_after_ms));
               return side.line().say(result.wrong);
             }));
  YONDER_TRY(box, segment::Migratable<MigrateMap>::create(pair->agent(), kMapBytes));
  box->reserve(kMapEntries);
  for (std::uint64_t key = 0; key < kMapEntries; ++key) box->emplace(key, value_of(key));
  YONDER_TRY_VOID(box.connect(pair->target()));
  YONDER_TRY_VOID(box.transfer());
  AccessReport result;
  for (double* number : {&result.p95_us, &result.mean_us, &result.local_after_ms, &result.wrong}) {
    YONDER_TRY(heard, pair->line().hear());
    *number = heard;
  }
  YONDER_TRY_VOID(pair->finish());
  return result;
}

}  // namespace

Result<void> report_access(const std::string& provider, const Options& options, Report& report) {
  YONDER_TRY(demand, measure_access(provider, false));
  YONDER_TRY(prefetch, measure_access(provider, true));
  const bool main = is_main(provider, options);
  for (const std::string& suffix : {std::string(), "_" + provider}) {
    if (suffix.empty() && !main) continue;
    report.result("p95_us_demand" + suffix, demand.p95_us);
    report.result("p95_us_prefetch" + suffix, prefetch.p95_us);
    report.result("mean_us_demand_first_100ms" + suffix, demand.mean_us);
    report.result("mean_us_prefetch_first_100ms" + suffix, prefetch.mean_us);
    report.result("local_after_ms_demand" + suffix, demand.local_after_ms);
    report.result("local_after_ms_prefetch" + suffix, prefetch.local_after_ms);
  }
  report.result("wrong_values_" + provider, demand.wrong + prefetch.wrong);
  return {};
}

}  // namespace yonder::bench
