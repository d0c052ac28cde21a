#include "bench/migrate/migrate_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bench/migrate/pair.h"
#include "yonder/base/histogram.h"
#include "yonder/base/prng.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"
#include "yonder/segment/migratable.h"

namespace yonder::bench {

namespace {

using segment::Agent;
using segment::Migratable;
using Value = std::array<std::uint64_t, 16>;  // 128 bytes, as in the paper
using Map = segment::unordered_map<std::uint64_t, Value>;
using StdMap = std::unordered_map<std::uint64_t, Value>;

constexpr std::size_t kPage = os::kPageBytes;
constexpr std::uint64_t kMapEntries = 1'000'000;
constexpr Bytes kMapBytes = 256_MiB;
constexpr Duration kWindow = std::chrono::milliseconds(100);

double us(Duration duration) { return static_cast<double>(duration.count()) / 1e3; }
Deadline soon() { return Deadline::at(os::SteadyClock::read() + std::chrono::seconds(60)); }
double now_us() { return static_cast<double>(os::SteadyClock::read().ns()) / 1e3; }

// ---------------------------------------------------------------- the pause

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

Result<void> report_pauses(const std::string& provider, const Options& options, Report& report) {
  const std::size_t large = std::size_t{4} << 30;
  YONDER_TRY(small, measure_pauses(provider, std::size_t{1} << 20, options.quick ? 9 : 25));
  YONDER_TRY(middle, measure_pauses(provider, std::size_t{64} << 20, options.quick ? 5 : 15));
  YONDER_TRY(huge, measure_pauses(provider, large, options.quick ? 2 : 7));
  report.result(fmt::format("pause_us_{}_1m", provider), median(small));
  report.result(fmt::format("pause_us_{}_64m", provider), median(middle));
  report.result(fmt::format("pause_us_{}_4g", provider), median(huge));
  report.result(fmt::format("pause_us_{}", provider),
                std::max({median(small), median(middle), median(huge)}));
  report.ratio(fmt::format("pause_4g_vs_1m_{}", provider), median(huge) / median(small), 0);
  if (provider == "shm" || options.fabric == provider)
    report.ratio("pause_4g_vs_1m", median(huge) / median(small), 0);
  return {};
}

// ---------------------------------------------------------------- after the transfer

Value value_of(std::uint64_t key) {
  Value value;
  value.fill(key * 0x9e3779b97f4a7c15);
  return value;
}

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
  YONDER_TRY(box, Migratable<Map>::adopt(side.agent(), got));
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
  const PairOptions options{.provider = provider, .receive = {.prefetch = prefetch}};
  YONDER_TRY(pair, Pair::start(options, [&](TargetSide& side) -> Result<void> {
               YONDER_TRY(result, access_after_receive(side));
               YONDER_TRY_VOID(side.line().say(result.p95_us));
               YONDER_TRY_VOID(side.line().say(result.mean_us));
               YONDER_TRY_VOID(side.line().say(result.local_after_ms));
               return side.line().say(result.wrong);
             }));
  YONDER_TRY(box, Migratable<Map>::create(pair->agent(), kMapBytes));
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

Result<void> report_access(const std::string& provider, const Options& options, Report& report) {
  YONDER_TRY(demand, measure_access(provider, false));
  YONDER_TRY(prefetch, measure_access(provider, true));
  const bool main = provider == "shm" || options.fabric == provider;
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

// ---------------------------------------------------------------- bandwidth

// Bytes a second of the provider's reads, as the prefetcher makes them, into memory that
// is there.
Result<double> raw_bandwidth(TargetSide& side, const std::string& address, const fabric::RegionToken& token) {
  constexpr std::size_t kChunk = 64 * kPage;
  YONDER_TRY(queue, side.fabric().create_completion_queue({}));
  YONDER_TRY(endpoint, side.fabric().connect({.address = address, .endpoint = {.depth = 64}}, *queue));
  YONDER_TRY(file, os::Memfd::create({.size = token.length}));
  YONDER_TRY(memory, os::Mapping::of_file(
                         file.fd(),
                         {.bytes = file.size(), .protection = os::Protection::kReadWrite, .populate = true}));
  YONDER_TRY_VOID(memory.populate_write(0, memory.size()));
  const Instant begin = os::SteadyClock::read();
  std::size_t posted = 0;
  std::size_t done = 0;
  while (done < token.length) {
    while (posted < token.length && posted - done < 4 * kChunk) {
      const fabric::LocalPiece piece = fabric::LocalPiece::of(memory.bytes(posted, kChunk));
      const fabric::WorkRequest request{
          .op = fabric::Op::kRead, .local = {&piece, 1}, .remote = token.at(posted)};
      YONDER_TRY(count, endpoint->post({&request, 1}));
      if (count == 0) break;
      posted += kChunk;
    }
    std::array<fabric::Completion, 8> completions;
    std::size_t count = queue->poll(completions);
    if (count == 0) (void)queue->wait();
    for (std::size_t i = 0; i < count; ++i) {
      if (!completions[i].ok()) return fail(completions[i].status, "read the raw link");
      done += kChunk;
    }
  }
  const Duration time = os::SteadyClock::read() - begin;
  endpoint->close();
  return static_cast<double>(token.length) * 1e9 / static_cast<double>(time.count());
}

bool is_local(Agent& agent) {
  for (const segment::Migration& migration : agent.migrations()) {
    if (migration.bytes_left > 0) return false;
  }
  return true;
}

// Bytes a second from the transfer until all is local, prefetcher alone.
Result<double> pull_bandwidth(TargetSide& side) {
  YONDER_TRY(got, side.agent().receive(soon()));
  const Instant begin = os::SteadyClock::read();
  while (!is_local(side.agent())) std::this_thread::sleep_for(std::chrono::microseconds(200));
  const Duration time = os::SteadyClock::read() - begin;
  YONDER_TRY_VOID(side.agent().close(got.id, soon()));
  YONDER_TRY_VOID(side.agent().deallocate(got.id));
  return static_cast<double>(got.memory.size()) * 1e9 / static_cast<double>(time.count());
}

Result<void> report_bandwidth(const std::string& provider, const Options& options, Report& report) {
  const std::size_t bytes = std::size_t{256} << 20;
  const int rounds = options.quick ? 5 : 15;
  YONDER_TRY(pair, Pair::start({.provider = provider}, [&](TargetSide& side) -> Result<void> {
               YONDER_TRY(address, side.line().hear_text());
               YONDER_TRY(key, side.line().hear_text());
               const fabric::RegionToken token{
                   .key = {std::stoull(key)}, .length = bytes, .rights = fabric::Rights::kRead};
               for (int i = 0; i < rounds; ++i) {
                 YONDER_TRY(raw, raw_bandwidth(side, address, token));
                 YONDER_TRY_VOID(side.line().say(raw));
                 YONDER_TRY(pulled, pull_bandwidth(side));
                 YONDER_TRY_VOID(side.line().say(pulled));
               }
               return {};
             }));
  YONDER_TRY(file, os::Memfd::create({.size = bytes}));
  YONDER_TRY(memory,
             os::Mapping::of_file(file.fd(), {.bytes = bytes, .protection = os::Protection::kReadWrite}));
  std::memset(memory.data(), 1, bytes);
  YONDER_TRY(region, pair->fabric().register_memory(
                         {.memory = memory.bytes(), .backing = fabric::Backing{.fd = file.fd().get()}}));
  const std::string address = provider == "tcp" ? "tcp://127.0.0.1:0" : "shm:";
  YONDER_TRY(listener, pair->fabric().listen({.address = address, .passive = true}));
  YONDER_TRY_VOID(pair->line().say_text(listener->address()));
  YONDER_TRY_VOID(pair->line().say_text(std::to_string(region.token().key.value)));
  std::vector<double> ratios;
  std::vector<double> pulls;
  for (int i = 0; i < rounds; ++i) {
    YONDER_TRY(segment, pair->agent().allocate(Bytes(bytes)));
    std::memset(segment.memory.data(), 2, bytes);
    YONDER_TRY_VOID(pair->agent().connect(segment.id, pair->target()));
    YONDER_TRY(raw, pair->line().hear());
    YONDER_TRY_VOID(pair->agent().transfer(segment.id));
    YONDER_TRY(pulled, pair->line().hear());
    ratios.push_back(pulled / raw);
    pulls.push_back(pulled);
  }
  YONDER_TRY_VOID(pair->finish());
  report.ratio("pull_vs_link_" + provider, ratios);
  if (provider == "shm" || options.fabric == provider) report.ratio("pull_vs_link", ratios);
  report.result("pull_gb_per_s_" + provider, median(pulls) / 1e9);
  return {};
}

// ---------------------------------------------------------------- the source meanwhile

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

// The source serves another map on its core while the target, on the other, drains a
// segment by touches and prefetch.
Result<void> report_source(const std::string& provider, const Options& options, Report& report) {
  constexpr std::uint64_t kEntries = 200'000;
  const std::size_t bytes = std::size_t{512} << 20;
  const int rounds = options.quick ? 3 : 9;
  const PairOptions pinned{.provider = provider, .pin = true};
  YONDER_TRY(pair,
             Pair::start(pinned, [&](TargetSide& side) { return drain_segments(side, bytes, rounds); }));
  YONDER_TRY(stays, Migratable<Map>::create(pair->agent(), kMapBytes));
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
  if (provider == "shm" || options.fabric == provider) report.ratio("source_tput_during_vs_before", ratios);
  return {};
}

// ---------------------------------------------------------------- containers at rest

// Operations a second of a mix: mostly finds, some erases and inserts.
template <typename M>
double mixed_per_second(M& map, std::uint64_t entries, std::uint64_t operations, Prng prng) {
  const Instant begin = os::SteadyClock::read();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < operations; ++i) {
    const std::uint64_t key = prng.below(entries);
    const std::uint64_t what = prng.below(10);
    if (what < 8) {
      const auto found = map.find(key);
      if (found != map.end()) sum += found->second[0];
    } else if (what == 8) {
      map.erase(key);
    } else {
      map.emplace(key, Value{key});
    }
  }
  asm volatile("" : : "r"(sum));
  return static_cast<double>(operations) * 1e9 /
         static_cast<double>((os::SteadyClock::read() - begin).count());
}

Result<void> report_container(const Options& options, Report& report) {
  const std::uint64_t entries = options.quick ? 300'000 : kMapEntries;
  YONDER_TRY(pair, Pair::start({}, [](TargetSide&) -> Result<void> { return {}; }));
  YONDER_TRY(box, Migratable<Map>::create(pair->agent(), 512_MiB));
  StdMap plain;
  for (std::uint64_t key = 0; key < entries; ++key) {
    box->emplace(key, Value{key});
    plain.emplace(key, Value{key});
  }
  std::uint64_t seed = 0;
  const std::uint64_t operations = options.quick ? 500'000 : 2'000'000;
  // Both get the same keys; pages and free lists settle in the first round.
  mixed_per_second(*box, entries, operations, Prng(1));
  mixed_per_second(plain, entries, operations, Prng(1));
  const std::vector<double> ratios = compare(
      options.quick ? 7 : 21, [&] { return mixed_per_second(*box, entries, operations, Prng(++seed / 2)); },
      [&] { return mixed_per_second(plain, entries, operations, Prng(++seed / 2)); });
  report.ratio("container_vs_std", ratios);
  return pair->finish();
}

}  // namespace

Result<void> run_migrate_bench(const Options& options, Report& report) {
  report.param("map_entries", static_cast<double>(kMapEntries));
  YONDER_TRY_VOID(report_container(options, report));
  for (const char* provider : {"shm", "tcp"}) {
    if (!options.wants(provider)) continue;
    YONDER_TRY_VOID(report_pauses(provider, options, report));
    YONDER_TRY_VOID(report_access(provider, options, report));
    YONDER_TRY_VOID(report_bandwidth(provider, options, report));
    YONDER_TRY_VOID(report_source(provider, options, report));
  }
  return {};
}

}  // namespace yonder::bench
