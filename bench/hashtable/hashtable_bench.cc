#include "bench/hashtable/hashtable_bench.h"

#include <fmt/format.h>
#include <tbb/concurrent_hash_map.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bench/hashtable/sim_table.h"
#include "bench/lent/lent_process.h"
#include "yonder/base/prng.h"
#include "yonder/os/steady_clock.h"
#include "yonder/structures/hash_table.h"

namespace yonder::bench {
namespace {

using structures::HashTable;

constexpr std::size_t kValueBytes = 64;
using Value = std::array<std::byte, kValueBytes>;
using LocalMap = tbb::concurrent_hash_map<std::uint64_t, Value>;

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

// ---------------------------------------------------------------- simulated

Result<void> measure_sim(const Options& options, Report& report) {
  double least = std::numeric_limits<double>::max();  // from six front ends on
  for (const std::uint32_t front_ends : {1u, 2u, 6u, 10u, 14u}) {
    SimTableOptions run{.seed = options.seed, .front_ends = front_ends};
    if (options.quick) run.duration = std::chrono::milliseconds(3);
    YONDER_TRY(all, measure_sim_table(run));
    run.write_back = {};
    YONDER_TRY(acknowledged_late, measure_sim_table(run));
    run.consolidate = false;
    YONDER_TRY(placed, measure_sim_table(run));
    run.numa_aware = false;
    YONDER_TRY(basic, measure_sim_table(run));
    report.result(fmt::format("sim_mops_basic_{}", front_ends), basic);
    report.result(fmt::format("sim_mops_numa_{}", front_ends), placed);
    report.result(fmt::format("sim_mops_optimised_{}", front_ends), all);
    report.result(fmt::format("sim_mops_no_write_back_{}", front_ends), acknowledged_late);
    report.ratio(fmt::format("numa_vs_basic_{}", front_ends), placed / basic, 0);
    report.ratio(fmt::format("optimised_vs_basic_{}", front_ends), all / basic, 0);
    if (front_ends >= 6) least = std::min(least, all / basic);
  }
  report.ratio("optimised_vs_basic", least, 0);
  return {};
}

// ---------------------------------------------------------------- real

Value value_of(std::uint64_t key) {
  Value value;
  for (std::size_t i = 0; i < kValueBytes; i += 8) std::memcpy(value.data() + i, &key, 8);
  return value;
}

double seconds_since(Instant begin) {
  return static_cast<double>((os::SteadyClock::read() - begin).count()) * 1e-9;
}

Result<void> fill(HashTable& table, std::uint64_t keys) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Value value = value_of(key);
    YONDER_TRY_VOID(table.put(bytes_of(key), value));
  }
  return {};
}

// Finds a second of ours, and of the map, over the same keys.
Result<void> compare_finds(HashTable& table, const LocalMap& map, std::uint64_t keys, const Options& options,
                           Report& report) {
  const int rounds = options.quick ? 7 : 15;
  const int finds = options.quick ? 100'000 : 400'000;
  std::vector<double> ours;
  std::vector<double> local;
  std::vector<double> ratios;
  std::uint64_t wrong = 0;
  std::vector<std::byte> found;
  for (int round = 0; round < rounds; ++round) {
    // The next key depends on what was found, as a program's would.
    Prng random(options.seed + static_cast<std::uint64_t>(round));
    std::uint64_t last = 0;
    Instant begin = os::SteadyClock::read();
    for (int i = 0; i < finds; ++i) {
      const std::uint64_t key = (random.below(keys) + (last & 1)) % keys;
      const auto version = table.find(bytes_of(key), found);
      if (!version) return std::unexpected(version.error());
      std::memcpy(&last, found.data(), 8);
      wrong += last != key;
    }
    ours.push_back(finds / seconds_since(begin));
    random = Prng(options.seed + static_cast<std::uint64_t>(round));
    begin = os::SteadyClock::read();
    Value value;
    for (int i = 0; i < finds; ++i) {
      const std::uint64_t key = (random.below(keys) + (last & 1)) % keys;
      LocalMap::const_accessor entry;
      if (!map.find(entry, key)) ++wrong;
      value = entry->second;
      std::memcpy(&last, value.data(), 8);
      wrong += last != key;
    }
    local.push_back(finds / seconds_since(begin));
    ratios.push_back(ours.back() / local.back());
  }
  if (wrong != 0) return fail(ErrorCode::kCorrupt, "hash table bench: wrong values", wrong);
  report.result("finds_per_s", median(ours));
  report.result("local_map_finds_per_s", median(local));
  report.ratio("find_vs_local_map", ratios);
  return {};
}

Result<void> compare_multiget(HashTable& table, std::uint64_t keys, const Options& options,
                              const std::string& provider, Report& report) {
  constexpr std::size_t kTogether = 32;
  const int rounds = options.quick ? 7 : 15;
  const int batches = options.quick ? 100 : 400;
  Prng random(options.seed);
  std::vector<std::uint64_t> wanted(kTogether);
  std::vector<structures::FindItem> items(kTogether);
  std::vector<std::byte> value;
  std::vector<double> ratios;
  std::uint64_t wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    double together = 0;
    double single = 0;
    for (int i = 0; i < batches; ++i) {
      for (std::size_t k = 0; k < kTogether; ++k) {
        wanted[k] = random.below(keys);
        items[k].key = bytes_of(wanted[k]);
      }
      Instant begin = os::SteadyClock::read();
      table.find_many(items);
      together += seconds_since(begin);
      for (const auto& item : items) wrong += item.result ? 0 : 1;
      // Others: what was just found is in the caches.
      for (std::uint64_t& key : wanted) key = random.below(keys);
      begin = os::SteadyClock::read();
      for (const std::uint64_t& key : wanted) wrong += table.find(bytes_of(key), value) ? 0 : 1;
      single += seconds_since(begin);
    }
    ratios.push_back(single / together);
  }
  if (wrong != 0) return fail(ErrorCode::kCorrupt, "hash table bench: keys that are gone", wrong);
  report.ratio(fmt::format("multiget32_vs_get_{}", provider), ratios);
  if (provider == "tcp" || options.fabric == provider) report.ratio("multiget32_vs_get", ratios);
  return {};
}

Result<void> measure_real(const Options& options, const std::string& provider, Report& report) {
  const bool is_tcp = provider == "tcp";
  // Over tcp it is about requests, not about memory.
  const std::uint64_t keys = is_tcp ? 20'000 : options.quick ? 1'000'000 : 8'000'000;
  // Images, arrays as they double, and chunks.
  const Bytes memory(std::max<std::uint64_t>(keys * 512, std::uint64_t{64} << 20));
  YONDER_TRY(lent, LentProcess::start(options, provider, memory));
  YONDER_TRY_VOID(HashTable::create(lent->port(), lent->token, {.log2_buckets = 16}));
  YONDER_TRY(table, HashTable::open(*lent->fabric, lent->port(), lent->token, {.chunk_bytes = 1 << 20}));
  YONDER_TRY_VOID(fill(*table, keys));
  report.result(fmt::format("{}_keys", provider), static_cast<double>(keys));
  if (!is_tcp) {
    LocalMap map(keys);
    for (std::uint64_t key = 0; key < keys; ++key) map.emplace(key, value_of(key));
    YONDER_TRY_VOID(compare_finds(*table, map, keys, options, report));
  }
  return compare_multiget(*table, keys, options, provider, report);
}

}  // namespace

Result<void> run_hashtable_bench(const Options& options, Report& report) {
  report.param("value_bytes", kValueBytes);
  // Not with "all": some figures have the same names.
  if (options.fabric == "sim") {
    report.set_simulated(true);
    return measure_sim(options, report);
  }
  return for_providers(options, report, {"shm", "tcp"},
                       [&](const std::string& provider) { return measure_real(options, provider, report); });
}

}  // namespace yonder::bench
