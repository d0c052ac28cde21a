#include "bench/remote/consolidation_bench.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "bench/remote/rig.h"
#include "yonder/base/prng.h"
#include "yonder/remote/burst_buffer.h"

namespace yonder::bench {
namespace {

constexpr std::uint32_t kWriteBytes = 32;
constexpr std::uint32_t kRegionBytes = 1024;
// The hot part of the memory: as many regions as a buffer holds by default.
constexpr std::uint32_t kRegions = 64;

std::uint64_t random_place(Prng& random) {
  return random.below(kRegions * kRegionBytes / kWriteBytes) * kWriteBytes;
}

fabric::Task<void> write_natively(Rig& rig, Prng random, Meter& meter) {
  Lane& lane = rig.lane();
  const fabric::LocalPiece piece = lane.piece(0, kWriteBytes);
  while (meter.goes_on()) {
    // As its users would tune it: the payload travels with the request.
    const fabric::WorkRequest request{.op = fabric::Op::kWrite,
                                      .flags = fabric::RequestFlags::kInline,
                                      .local = {&piece, 1},
                                      .remote = rig.token().at(random_place(random))};
    const Result<fabric::Completion> done = co_await lane.endpoint->perform(request);
    meter.count(done.has_value());
  }
}

fabric::Task<void> write_through(remote::BurstWriter writer, Prng random, Meter& meter) {
  const std::vector<std::byte> bytes(kWriteBytes, std::byte{1});
  while (meter.goes_on()) {
    const Result<void> done = co_await writer.async_write(random_place(random), bytes);
    meter.count(done.has_value());
  }
}

Result<double> native_mops(Rig& rig, const Options& options) {
  return measure_mops(rig, measure_for(rig, options.quick), [&](std::size_t, Meter& meter) {
    return write_natively(rig, Prng(options.seed), meter);
  });
}

Result<double> consolidated_mops(Rig& rig, std::uint32_t theta, const Options& options) {
  Lane& lane = rig.lane();
  YONDER_TRY(buffer, remote::BurstBuffer::create(*lane.fabric, lane.port(), rig.token(),
                                                 {.region_bytes = kRegionBytes,
                                                  .threshold = theta,
                                                  .lease = std::chrono::milliseconds(1),
                                                  .max_regions = kRegions,
                                                  .sole_writer = true}));
  // Once before it counts: regions are read once, when they are first touched.
  YONDER_TRY(warm, measure_mops(rig, measure_for(rig, true), [&](std::size_t, Meter& meter) {
               return write_through(buffer->writer(), Prng(options.seed), meter);
             }));
  (void)warm;
  const auto mops = measure_mops(rig, measure_for(rig, options.quick), [&](std::size_t, Meter& meter) {
    return write_through(buffer->writer(), Prng(options.seed), meter);
  });
  YONDER_TRY_VOID(buffer->close());
  return mops;
}

Result<void> add_provider(const std::string& provider, const std::string& prefix, const Options& options,
                          Report& report) {
  YONDER_TRY(rig, Rig::create({.provider = provider, .seed = options.seed}));
  const int rounds = rig->is_simulated() ? 1 : options.quick ? 7 : 15;
  for (const std::uint32_t theta : {1U, 2U, 4U, 8U, 16U}) {
    std::vector<double> ratios;
    double ours = 0;
    double native = 0;
    for (int round = 0; round < rounds; ++round) {
      YONDER_TRY(a, consolidated_mops(*rig, theta, options));
      YONDER_TRY(b, native_mops(*rig, options));
      ratios.push_back(a / b);
      ours = a;
      native = b;
    }
    report.ratio(fmt::format("{}consolidated_vs_native_theta{}", prefix, theta), ratios);
    report.result(fmt::format("{}consolidated_mops_theta{}", prefix, theta), ours);
    report.result(prefix + "native_mops", native);
  }
  return {};
}

}  // namespace

Result<void> run_consolidation_bench(const Options& options, Report& report) {
  report.param("write_bytes", kWriteBytes);
  report.param("region_bytes", kRegionBytes);
  report.param("regions", kRegions);
  return for_providers(options, report, {"sim", "shm", "tcp"}, [&](const std::string& provider) {
    return add_provider(provider, key_prefix(options, provider), options, report);
  });
}

}  // namespace yonder::bench
