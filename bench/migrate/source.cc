#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/migrate/experiments.h"
#include "bench/migrate/pair.h"
#include "yonder/base/prng.h"
#include "yonder/os/mapping.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

constexpr std::size_t kPage = os::kPageBytes;

template <typename M>
double gets_per_second(M& map, std::uint64_t entries, Duration duration, Prng& prng) {
  const Instant begin = os::SteadyClock::read();
  Instant now = begin;
  std::uint64_t gets = 0;
  std::uint64_t sum = 0;
  while (now - begin < duration) {
    for (int i = 0; i < 256; ++i) sum += map.find(prng.below(entries))->second[0];
    gets += 256;
    now = os::SteadyClock::read();
  }
  asm volatile("" : : "r"(sum));
  return static_cast<double>(gets) * 1e9 / static_cast<double>((now - begin).count());
}

// What the target's core does in the rounds without a migration: it moves as many bytes,
// but its own. The two cores of this machine share caches and memory, and may be two
// threads of one; a target on another host would not slow the source by being busy.
void copy_own_memory(std::span<std::byte> from, std::span<std::byte> to, const std::atomic<bool>& stop) {
  constexpr std::size_t kChunk = 64 * kPage;
  for (std::size_t offset = 0; !stop.load(); offset = (offset + kChunk) % from.size())
    std::memcpy(to.data() + offset, from.data() + offset, kChunk);
}

Result<void> drain_segments(TargetSide& side, std::size_t bytes, int rounds) {
  YONDER_TRY(from, os::Mapping::anonymous({.bytes = bytes, .populate = true}));
  YONDER_TRY(to, os::Mapping::anonymous({.bytes = bytes, .populate = true}));
  for (int round = 0; round < rounds; ++round) {
    std::atomic<bool> stop{false};
    std::jthread neighbour([&] { copy_own_memory(from.bytes(), to.bytes(), stop); });
    const Result<segment::Segment> got = side.agent().receive(soon());
    stop = true;
    neighbour.join();
    if (!got) return std::unexpected(got.error());
    Prng prng(1);
    while (!is_local(side.agent())) {
      for (int i = 0; i < 64; ++i)
        (void)*const_cast<volatile std::byte*>(&got->memory[prng.below(bytes / kPage) * kPage]);
    }
    YONDER_TRY_VOID(side.agent().close(got->id, soon()));
    YONDER_TRY_VOID(side.agent().deallocate(got->id));
    YONDER_TRY_VOID(side.line().say(0));
  }
  return {};
}

}  // namespace

// The source serves another map on its core while the target, on the other, drains a
// segment by touches and prefetch.
Result<void> report_source(const std::string& provider, const Options& options, Report& report) {
  constexpr std::uint64_t kEntries = 200'000;
  const std::size_t bytes = std::size_t{512} << 20;
  const int rounds = options.quick ? 3 : 9;
  const PairOptions pinned{.provider = provider, .pin = true};
  YONDER_TRY(pair,
             Pair::start(pinned, [&](TargetSide& side) { return drain_segments(side, bytes, rounds); }));
  YONDER_TRY(stays, segment::Migratable<MigrateMap>::create(pair->agent(), kMapBytes));
  for (std::uint64_t key = 0; key < kEntries; ++key) stays->emplace(key, value_of(key));
  Prng prng(3);
  std::vector<double> ratios;
  const Duration slice = std::chrono::milliseconds(10);
  for (int round = 0; round < rounds; ++round) {
    YONDER_TRY(segment, pair->agent().allocate(Bytes(bytes)));
    std::memset(segment.memory.data(), 2, bytes);
    YONDER_TRY_VOID(pair->agent().connect(segment.id, pair->target()));
    gets_per_second(*stays, kEntries, slice, prng);
    const double before = gets_per_second(*stays, kEntries, std::chrono::milliseconds(200), prng);
    YONDER_TRY_VOID(pair->agent().transfer(segment.id));
    std::vector<double> during;
    while (!pair->agent().migrations().empty())
      during.push_back(gets_per_second(*stays, kEntries, slice, prng));
    // The last slice may reach beyond the end: it is not counted.
    if (during.size() > 1) during.pop_back();
    ratios.push_back(median(during) / before);
    YONDER_TRY_VOID(pair->line().hear());
  }
  YONDER_TRY_VOID(pair->finish());
  report.ratio("source_tput_during_vs_before_" + provider, ratios);
  if (is_main(provider, options)) report.ratio("source_tput_during_vs_before", ratios);
  return {};
}

}  // namespace yonder::bench
