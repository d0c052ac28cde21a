#include "bench/remote/vector_io_bench.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "bench/remote/rig.h"
#include "yonder/remote/cost_model.h"
#include "yonder/remote/vector_io.h"

namespace yonder::bench {
namespace {

using remote::Strategy;
using remote::VectorIo;
using remote::VectorPiece;

struct Shape {
  std::uint32_t batch = 16;
  std::uint32_t bytes = 32;
};

// Pieces of a lane: a line apart here, in a row at the target, lanes apart.
std::vector<VectorPiece> pieces_of(const Rig& rig, const Lane& lane, std::size_t index, Shape shape) {
  std::vector<VectorPiece> pieces;
  const std::uint64_t share = rig.token().length / rig.lanes() / 64 * 64;
  for (std::uint32_t i = 0; i < shape.batch; ++i) {
    const std::size_t local = std::size_t{i} * (shape.bytes + 64);
    pieces.push_back(
        {lane.piece(local, shape.bytes), rig.token().at(index * share + std::uint64_t{i} * shape.bytes)});
  }
  return pieces;
}

fabric::Task<void> write_vectors(VectorIo& io, const std::vector<VectorPiece>& pieces, Strategy strategy,
                                 Meter& meter) {
  while (meter.goes_on()) {
    const Result<void> written = co_await io.async_write(pieces, strategy);
    meter.count(written.has_value(), pieces.size());
  }
}

class Vectors {
 public:
  static Result<std::unique_ptr<Vectors>> create(const RigOptions& options) {
    auto vectors = std::unique_ptr<Vectors>(new Vectors);
    YONDER_TRY(rig, Rig::create(options));
    vectors->rig_ = std::move(rig);
    YONDER_TRY(costs, remote::measure_costs(vectors->rig_->lane().port(), *vectors->rig_->lane().pool,
                                            vectors->rig_->token().at(0), vectors->rig_->token().length));
    vectors->costs_ = costs;
    for (std::size_t i = 0; i < vectors->rig_->lanes(); ++i) {
      Lane& lane = vectors->rig_->lane(i);
      vectors->ios_.push_back(
          std::make_unique<VectorIo>(lane.port(), *lane.pool, remote::VectorOptions{.costs = costs}));
    }
    return vectors;
  }

  // Millions of pieces a second.
  Result<double> mops(Strategy strategy, Shape shape, bool quick) {
    std::vector<std::vector<VectorPiece>> pieces;
    for (std::size_t i = 0; i < rig_->lanes(); ++i)
      pieces.push_back(pieces_of(*rig_, rig_->lane(i), i, shape));
    return measure_mops(*rig_, measure_for(*rig_, quick), [&](std::size_t i, Meter& meter) {
      return write_vectors(*ios_[i], pieces[i], strategy, meter);
    });
  }
  const remote::CostModel& costs() const { return costs_; }

 private:
  Vectors() = default;
  std::unique_ptr<Rig> rig_;
  remote::CostModel costs_;
  std::vector<std::unique_ptr<VectorIo>> ios_;
};

struct Rates {
  double pack = 0, gather = 0, doorbell = 0, single = 0, chosen = 0;
};

Result<Rates> rates_of(Vectors& vectors, Shape shape, bool quick) {
  YONDER_TRY(pack, vectors.mops(Strategy::kPack, shape, quick));
  YONDER_TRY(gather, vectors.mops(Strategy::kGather, shape, quick));
  YONDER_TRY(doorbell, vectors.mops(Strategy::kDoorbell, shape, quick));
  YONDER_TRY(single, vectors.mops(Strategy::kSingle, shape, quick));
  YONDER_TRY(chosen, vectors.mops(Strategy::kAuto, shape, quick));
  return Rates{pack, gather, doorbell, single, chosen};
}

void add_rates(Report& report, const std::string& suffix, const Rates& rates) {
  report.result("sp_mops" + suffix, rates.pack);
  report.result("sgl_mops" + suffix, rates.gather);
  report.result("doorbell_mops" + suffix, rates.doorbell);
  report.result("single_mops" + suffix, rates.single);
  report.result("auto_mops" + suffix, rates.chosen);
}

void add_ratios(Report& report, const std::string& suffix, const Rates& rates) {
  report.ratio("sp_vs_sgl" + suffix, rates.pack / rates.gather, 0);
  report.ratio("sp_vs_doorbell" + suffix, rates.pack / rates.doorbell, 0);
  report.ratio("auto_vs_single" + suffix, rates.chosen / rates.single, 0);
}

Result<void> add_simulated(const Options& options, Report& report) {
  for (const std::uint32_t threads : {1U, 2U, 4U, 8U}) {
    YONDER_TRY(vectors, Vectors::create({.seed = options.seed, .lanes = threads}));
    for (const std::uint32_t batch : {4U, 16U, 32U}) {
      YONDER_TRY(rates, rates_of(*vectors, {.batch = batch}, options.quick));
      const std::string suffix = fmt::format("_t{}_b{}_32", threads, batch);
      add_rates(report, suffix, rates);
      add_ratios(report, suffix, rates);
      // The figure without a suffix: one thread, as in figure 4, and the middle batch.
      if (threads == 1 && batch == 16) add_ratios(report, "", rates);
    }
  }
  YONDER_TRY(vectors, Vectors::create({.seed = options.seed}));
  double at_512 = 0;
  for (const std::uint32_t bytes : {64U, 128U, 256U, 512U, 1024U, 2048U}) {
    YONDER_TRY(rates, rates_of(*vectors, {.bytes = bytes}, options.quick));
    add_rates(report, fmt::format("_t1_b16_{}", bytes), rates);
    if (bytes == 512) at_512 = rates.gather;
    if (bytes > 512) report.ratio(fmt::format("sgl_{}_vs_512", bytes), rates.gather / at_512, 0);
  }
  return {};
}

Result<void> add_real(const std::string& provider, const std::string& prefix, const Options& options,
                      Report& report) {
  YONDER_TRY(vectors, Vectors::create({.provider = provider}));
  const Shape shape{.batch = 32};
  std::vector<double> against_single, against_gather, against_doorbell;
  Rates last;
  for (int round = 0; round < (options.quick ? 7 : 15); ++round) {
    YONDER_TRY(rates, rates_of(*vectors, shape, options.quick));
    against_single.push_back(rates.chosen / rates.single);
    against_gather.push_back(rates.pack / rates.gather);
    against_doorbell.push_back(rates.pack / rates.doorbell);
    last = rates;
  }
  report.ratio(prefix + "auto_vs_single", against_single);
  report.ratio(prefix + "sp_vs_sgl", against_gather);
  report.ratio(prefix + "sp_vs_doorbell", against_doorbell);
  report.result(prefix + "auto_mops_b32_32", last.chosen);
  report.result(prefix + "single_mops_b32_32", last.single);
  const remote::CostModel& costs = vectors->costs();
  report.result(prefix + "cost_request_ns", costs.request_ns);
  report.result(prefix + "cost_gather_piece_ns", costs.gather_piece_ns);
  report.result(prefix + "cost_gather_byte_ns", costs.gather_byte_ns);
  report.result(prefix + "cost_pack_piece_ns", costs.pack_piece_ns);
  report.result(prefix + "cost_pack_byte_ns", costs.pack_byte_ns);
  return {};
}

}  // namespace

Result<void> run_vector_io_bench(const Options& options, Report& report) {
  report.param("seed", static_cast<double>(options.seed));
  return for_providers(options, report, {"sim", "shm", "tcp"}, [&](const std::string& provider) {
    if (provider == "sim") return add_simulated(options, report);
    return add_real(provider, key_prefix(options, provider), options, report);
  });
}

}  // namespace yonder::bench
