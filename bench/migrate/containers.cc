#include <unordered_map>
#include <vector>

#include "bench/migrate/experiments.h"
#include "bench/migrate/pair.h"
#include "yonder/base/prng.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using StdMap = std::unordered_map<std::uint64_t, MigrateValue>;

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
      map.emplace(key, MigrateValue{key});
    }
  }
  asm volatile("" : : "r"(sum));
  return static_cast<double>(operations) * 1e9 /
         static_cast<double>((os::SteadyClock::read() - begin).count());
}

}  // namespace

Result<void> report_container(const Options& options, Report& report) {
  const std::uint64_t entries = options.quick ? 300'000 : kMapEntries;
  YONDER_TRY(pair, Pair::start({}, [](TargetSide&) -> Result<void> { return {}; }));
  YONDER_TRY(box, segment::Migratable<MigrateMap>::create(pair->agent(), 512_MiB));
  StdMap plain;
  for (std::uint64_t key = 0; key < entries; ++key) {
    box->emplace(key, MigrateValue{key});
    plain.emplace(key, MigrateValue{key});
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

}  // namespace yonder::bench
