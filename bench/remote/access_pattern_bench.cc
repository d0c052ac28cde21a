#include "bench/remote/access_pattern_bench.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "bench/remote/rig.h"
#include "yonder/base/prng.h"

namespace yonder::bench {
namespace {

constexpr std::uint32_t kBytes = 32;
constexpr std::size_t kLarge = std::size_t{256} << 20;
constexpr std::size_t kSmall = std::size_t{2} << 20;
constexpr int kOutstanding = 64;  // enough to keep a NIC busy

// Places that all coroutines of one measurement take in turn.
class Places {
 public:
  Places(bool random, std::uint64_t slots, std::uint64_t seed)
      : is_random_(random), slots_(slots), random_(seed) {}
  std::uint64_t next() { return (is_random_ ? random_.below(slots_) : next_++ % slots_) * kBytes; }

 private:
  const bool is_random_;
  const std::uint64_t slots_;
  std::uint64_t next_ = 0;
  Prng random_;
};

fabric::Task<void> go_through(Rig& rig, fabric::Op op, Places& remote, Places& local, Meter& meter) {
  Lane& lane = rig.lane();
  while (meter.goes_on()) {
    const fabric::LocalPiece piece = lane.piece(local.next(), kBytes);
    const fabric::WorkRequest request{
        .op = op, .local = {&piece, 1}, .remote = rig.token().at(remote.next())};
    const Result<fabric::Completion> done = co_await lane.endpoint->perform(request);
    meter.count(done.has_value());
  }
}

Result<double> mops(Rig& rig, fabric::Op op, bool random, const Options& options) {
  Places remote(random, rig.token().length / kBytes, options.seed);
  Places local(random, rig.lane().memory.size() / kBytes, options.seed + 1);
  return measure_mops(rig, measure_for(rig, options.quick), [&](std::size_t, Meter& meter) {
    for (int i = 1; i < kOutstanding; ++i) rig.scheduler().spawn(go_through(rig, op, remote, local, meter));
    return go_through(rig, op, remote, local, meter);
  });
}

Result<void> add_size(const std::string& provider, std::size_t bytes, const std::string& prefix,
                      const std::string& suffix, const Options& options, Report& report) {
  YONDER_TRY(rig, Rig::create({.provider = provider,
                               .seed = options.seed,
                               .target_bytes = bytes,
                               .local_bytes = bytes < kLarge ? bytes / 2 : bytes}));
  const int rounds = rig->is_simulated() ? 1 : options.quick ? 5 : 11;
  for (const auto& [op, name] :
       {std::pair(fabric::Op::kWrite, "write"), std::pair(fabric::Op::kRead, "read")}) {
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
      YONDER_TRY(sequential, mops(*rig, op, false, options));
      YONDER_TRY(random, mops(*rig, op, true, options));
      ratios.push_back(sequential / random);
      report.result(fmt::format("{}{}_seq_mops{}", prefix, name, suffix), sequential);
      report.result(fmt::format("{}{}_random_mops{}", prefix, name, suffix), random);
    }
    report.ratio(fmt::format("{}seq_vs_random_{}{}", prefix, name, suffix), ratios);
  }
  return {};
}

}  // namespace

Result<void> run_access_pattern_bench(const Options& options, Report& report) {
  report.param("bytes", kBytes);
  return for_providers(options, report, {"sim", "shm", "tcp"},
                       [&](const std::string& provider) -> Result<void> {
                         const std::string prefix = key_prefix(options, provider);
                         YONDER_TRY_VOID(add_size(provider, kLarge, prefix, "", options, report));
                         return add_size(provider, kSmall, prefix, "_2mib", options, report);
                       });
}

}  // namespace yonder::bench
