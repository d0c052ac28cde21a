#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "bench/migrate/experiments.h"
#include "bench/migrate/pair.h"
#include "yonder/os/mapping.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

constexpr std::size_t kPage = os::kPageBytes;

double now_us() { return static_cast<double>(os::SteadyClock::read().ns()) / 1e3; }

// From the fence at the source until the target is told that the segment is its own.
Result<std::vector<double>> measure_pauses(const std::string& provider, std::size_t bytes, int rounds) {
  // The target's process has copies of its own of both.
  std::atomic<double> owned_at{0};
  std::atomic<std::uint64_t> owned{0};
  const PairOptions options{.provider = provider,
                            .receive = {.prefetch = false, .make_room = false},
                            .on_received = [&](const segment::Segment& segment) {
                              owned_at.store(now_us());
                              owned.store(segment.id.value());
                            }};
  YONDER_TRY(pair, Pair::start(options, [&](TargetSide& side) -> Result<void> {
               for (int i = 0; i < rounds; ++i) {
                 while (owned.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                 YONDER_TRY_VOID(side.agent().deallocate(segment::SegmentId(owned.exchange(0))));
                 YONDER_TRY_VOID(side.line().say(owned_at.load()));
               }
               return {};
             }));
  std::vector<double> pauses;
  for (int i = 0; i < rounds; ++i) {
    YONDER_TRY(segment, pair->agent().allocate(Bytes(bytes)));
    for (std::size_t offset = 0; offset < bytes; offset += kPage) segment.memory[offset] = std::byte{1};
    YONDER_TRY_VOID(pair->agent().connect(segment.id, pair->target()));
    // Connecting is over, and everybody has gone back to sleep, as in a service.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    YONDER_TRY(transferred, pair->agent().transfer(segment.id));
    YONDER_TRY(received, pair->line().hear());
    pauses.push_back(received - static_cast<double>(transferred.fenced_at.ns()) / 1e3);
  }
  YONDER_TRY_VOID(pair->finish());
  return pauses;
}

}  // namespace

Result<void> report_pauses(const std::string& provider, const Options& options, Report& report) {
  const std::size_t large = std::size_t{4} << 30;
  YONDER_TRY(small, measure_pauses(provider, std::size_t{1} << 20, options.quick ? 9 : 25));
  YONDER_TRY(middle, measure_pauses(provider, std::size_t{64} << 20, options.quick ? 5 : 15));
  YONDER_TRY(huge, measure_pauses(provider, large, options.quick ? 3 : 7));
  report.result(fmt::format("pause_us_{}_1m", provider), median(small));
  report.result(fmt::format("pause_us_{}_64m", provider), median(middle));
  report.result(fmt::format("pause_us_{}_4g", provider), median(huge));
  report.result(fmt::format("pause_us_{}", provider),
                std::max({median(small), median(middle), median(huge)}));
  report.ratio(fmt::format("pause_4g_vs_1m_{}", provider), median(huge) / median(small), 0);
  if (is_main(provider, options)) report.ratio("pause_4g_vs_1m", median(huge) / median(small), 0);
  return {};
}

}  // namespace yonder::bench
