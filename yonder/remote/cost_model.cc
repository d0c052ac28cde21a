#include "yonder/remote/cost_model.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "yonder/remote/vector_io.h"

namespace yonder::remote {
namespace {

constexpr std::uint32_t kPieces = 16;
constexpr std::uint32_t kSmall = 32;
constexpr std::uint32_t kLarge = 512;
constexpr int kRounds = 40;
// Calls of one probe in a row: in virtual time a copy after a read delays what comes
// next, not what was measured.
constexpr int kCalls = 4;
static_assert(kPieces * kLarge <= kMeasureBytes);

// Reads of so many pieces of one size, next to each other, in one way.
struct Probe {
  Strategy strategy;
  std::uint32_t pieces;
  std::uint32_t bytes;
  double best_ns = 0;
};

enum : std::size_t {
  kOne,
  kDoorbell,
  kGatherSmall,
  kGatherLarge,
  kPackSmall,
  kPackLarge,
  kOneLarge,
  kProbes
};

constexpr std::array<Probe, kProbes> kPlan = {{
    {Strategy::kDoorbell, 1, kSmall},
    {Strategy::kDoorbell, kPieces, kSmall},
    {Strategy::kGather, kPieces, kSmall},
    {Strategy::kGather, kPieces, kLarge},
    {Strategy::kPack, kPieces, kSmall},
    {Strategy::kPack, kPieces, kLarge},
    {Strategy::kDoorbell, 1, kPieces* kLarge},
}};

// The best of many rounds: what disturbs a measurement only ever makes it longer.
void keep_best(Probe& probe, Duration took) {
  const auto ns = static_cast<double>(took.count());
  probe.best_ns = probe.best_ns == 0 ? ns : std::min(probe.best_ns, ns);
}

CostModel costs_from(const std::array<Probe, kProbes>& probes) {
  const auto extra = [&](std::size_t probe, std::size_t over) {
    return std::max(0.0, probes[probe].best_ns - probes[over].best_ns);
  };
  constexpr double n = kPieces;
  constexpr double small = kPieces * kSmall;
  constexpr double large = kPieces * kLarge;
  CostModel costs;
  costs.request_ns = std::max(1.0, extra(kDoorbell, kOne) / (n - 1));
  costs.gather_piece_ns = extra(kGatherSmall, kOne) / n;
  costs.pack_piece_ns = extra(kPackSmall, kOne) / n;
  // What bytes cost beyond travelling in one request without pieces.
  const double travel = extra(kOneLarge, kOne);
  costs.gather_byte_ns = std::max(0.0, extra(kGatherLarge, kGatherSmall) - travel) / (large - small);
  costs.pack_byte_ns = std::max(0.0, extra(kPackLarge, kPackSmall) - travel) / (large - small);
  return costs;
}

}  // namespace

CostModel default_costs(std::string_view provider) {
  // Measured by measure_costs() on two cores of Zen 3; what is not named stands for NICs.
  if (provider == "shm") {
    return {.request_ns = 65,
            .gather_piece_ns = 6,
            .gather_byte_ns = 0.005,
            .pack_piece_ns = 7,
            .pack_byte_ns = 0.015};
  }
  if (provider == "tcp") {
    return {.request_ns = 75,
            .gather_piece_ns = 5,
            .gather_byte_ns = 0,
            .pack_piece_ns = 8,
            .pack_byte_ns = 0.03};
  }
  return {};
}

Task<Result<CostModel>> async_measure_costs(Port port, BufferPool& pool, RemoteAddress region,
                                            std::uint64_t bytes, Deadline deadline) {
  if (bytes < kMeasureBytes) {
    co_return fail(ErrorCode::kLengthInvalid, "too little memory to measure with",
                   static_cast<std::int64_t>(bytes));
  }
  VectorIo io(port, pool);
  std::vector<std::byte> memory(kMeasureBytes);
  std::vector<VectorPiece> pieces;
  std::array<Probe, kProbes> probes = kPlan;
  for (int round = 0; round < kRounds; ++round) {
    for (Probe& probe : probes) {
      pieces.clear();
      for (std::uint32_t i = 0; i < probe.pieces; ++i) {
        const std::size_t offset = std::size_t{i} * probe.bytes;
        pieces.push_back({LocalPiece::of(std::span(memory).subspan(offset, probe.bytes)), region + offset});
      }
      const Instant begin = port.clock().now();
      for (int call = 0; call < kCalls; ++call) {
        const Result<void> done = co_await io.async_read(pieces, probe.strategy, deadline);
        if (!done) co_return std::unexpected(done.error());
      }
      keep_best(probe, (port.clock().now() - begin) / kCalls);
    }
  }
  co_return costs_from(probes);
}

Result<CostModel> measure_costs(Port port, BufferPool& pool, RemoteAddress region, std::uint64_t bytes,
                                Deadline deadline) {
  return port.run(async_measure_costs(port, pool, region, bytes, deadline));
}

}  // namespace yonder::remote
