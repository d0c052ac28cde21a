#include "bench/remote/atomics_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/remote/rig.h"
#include "yonder/remote/atomics_service.h"
#include "yonder/remote/lock.h"
#include "yonder/remote/sequencer.h"

namespace yonder::bench {
namespace {

using remote::AtomicsService;
using remote::BackoffOptions;

constexpr Duration kLease = std::chrono::seconds(10);  // Nobody dies here.
constexpr BackoffOptions kNoBackoff{.first = Duration(0)};

// A server of locks and sequencers on the target, and a client of it for each lane.
class Requests {
 public:
  static Result<std::unique_ptr<Requests>> create(Rig& rig) {
    auto requests = std::unique_ptr<Requests>(new Requests(rig));
    YONDER_TRY(server, rpc::Server::create(rig.target_fabric(), {.address = rig.listen_address(),
                                                                 .pollers = rig.is_simulated() ? 0U : 1U}));
    requests->server_ = std::move(server);
    requests->service_.attach(*requests->server_);
    YONDER_TRY_VOID(requests->server_->start());
    for (std::size_t i = 0; i < rig.lanes(); ++i) {
      Lane& lane = rig.lane(i);
      YONDER_TRY(client, rpc::Client::connect(*lane.fabric, requests->server_->address(), *lane.queue,
                                              {.scheduler = &rig.scheduler()}));
      requests->clients_.push_back(std::move(client));
    }
    return requests;
  }
  rpc::Client& client(std::size_t lane) { return *clients_[lane]; }

 private:
  explicit Requests(Rig& rig) : service_(rig.clock(), {}) {}
  AtomicsService service_;
  std::unique_ptr<rpc::Server> server_;
  std::vector<rpc::ClientPtr> clients_;
};

fabric::Task<void> lock_remotely(remote::Lock& lock, Meter& meter) {
  while (meter.goes_on()) {
    Result<remote::Lease> lease = co_await lock.async_lock();
    if (!lease) {
      meter.count(false);
      co_return;
    }
    const Result<void> unlocked = co_await lock.async_unlock(*lease);
    meter.count(unlocked.has_value());
  }
}

fabric::Task<void> lock_by_request(remote::RpcLock& lock, Meter& meter) {
  while (meter.goes_on()) {
    const Result<std::uint64_t> token = co_await lock.async_lock();
    if (!token) {
      meter.count(false);
      co_return;
    }
    const Result<void> unlocked = co_await lock.async_unlock(*token);
    meter.count(unlocked.has_value());
  }
}

template <typename SequencerType>
fabric::Task<void> draw_numbers(SequencerType& sequencer, Meter& meter) {
  while (meter.goes_on()) {
    const Result<std::uint64_t> number = co_await sequencer.async_next();
    meter.count(number.has_value());
  }
}

Result<double> remote_lock_mops(Rig& rig, const BackoffOptions& backoff, bool quick) {
  std::vector<std::unique_ptr<remote::Lock>> locks;
  for (std::size_t i = 0; i < rig.lanes(); ++i) {
    locks.push_back(std::make_unique<remote::Lock>(
        rig.lane(i).port(), rig.token().at(0),
        remote::LockOptions{.lease = kLease, .backoff = backoff, .seed = i + 1}));
  }
  return measure_mops(rig, measure_for(rig, quick),
                      [&](std::size_t i, Meter& meter) { return lock_remotely(*locks[i], meter); });
}

// Spins without a pause, as the paper's does: its pauses are those of the requests.
Result<double> rpc_lock_mops(Rig& rig, Requests& requests, bool quick) {
  std::vector<std::unique_ptr<remote::RpcLock>> locks;
  for (std::size_t i = 0; i < rig.lanes(); ++i) {
    locks.push_back(std::make_unique<remote::RpcLock>(
        requests.client(i), rig.scheduler(), 0,
        remote::RpcLockOptions{.lease = kLease, .backoff = kNoBackoff, .seed = i + 1}));
  }
  return measure_mops(rig, measure_for(rig, quick),
                      [&](std::size_t i, Meter& meter) { return lock_by_request(*locks[i], meter); });
}

Result<double> sequencer_mops(Rig& rig, bool quick) {
  std::vector<std::unique_ptr<remote::Sequencer>> sequencers;
  for (std::size_t i = 0; i < rig.lanes(); ++i) {
    sequencers.push_back(std::make_unique<remote::Sequencer>(rig.lane(i).port(), rig.token().at(64)));
  }
  return measure_mops(rig, measure_for(rig, quick),
                      [&](std::size_t i, Meter& meter) { return draw_numbers(*sequencers[i], meter); });
}

Result<double> rpc_sequencer_mops(Rig& rig, Requests& requests, bool quick) {
  std::vector<std::unique_ptr<remote::RpcSequencer>> sequencers;
  for (std::size_t i = 0; i < rig.lanes(); ++i) {
    sequencers.push_back(std::make_unique<remote::RpcSequencer>(requests.client(i), rig.scheduler(), 0));
  }
  return measure_mops(rig, measure_for(rig, quick),
                      [&](std::size_t i, Meter& meter) { return draw_numbers(*sequencers[i], meter); });
}

struct Rates {
  double backoff = 0, plain = 0, rpc_lock = 0, sequencer = 0, rpc_sequencer = 0;
};

Result<Rates> rates_of(Rig& rig, Requests& requests, bool quick) {
  YONDER_TRY(backoff, remote_lock_mops(rig, {}, quick));
  YONDER_TRY(plain, remote_lock_mops(rig, kNoBackoff, quick));
  YONDER_TRY(rpc_lock, rpc_lock_mops(rig, requests, quick));
  YONDER_TRY(sequencer, sequencer_mops(rig, quick));
  YONDER_TRY(rpc_sequencer, rpc_sequencer_mops(rig, requests, quick));
  return Rates{backoff, plain, rpc_lock, sequencer, rpc_sequencer};
}

void add_rates(Report& report, const std::string& prefix, const std::string& suffix, const Rates& rates) {
  report.result(prefix + "backoff_lock_mops" + suffix, rates.backoff);
  report.result(prefix + "plain_lock_mops" + suffix, rates.plain);
  report.result(prefix + "rpc_lock_mops" + suffix, rates.rpc_lock);
  report.result(prefix + "sequencer_mops" + suffix, rates.sequencer);
  report.result(prefix + "rpc_sequencer_mops" + suffix, rates.rpc_sequencer);
}

Result<void> add_simulated(const Options& options, Report& report) {
  for (const std::uint32_t threads : {1U, 2U, 4U, 8U, 14U}) {
    YONDER_TRY(rig,
               Rig::create({.seed = options.seed, .lanes = threads, .client_hosts = std::min(threads, 7U)}));
    YONDER_TRY(requests, Requests::create(*rig));
    YONDER_TRY(rates, rates_of(*rig, *requests, options.quick));
    const double local = local_lock_mops(threads);
    const std::string suffix = fmt::format("_t{}", threads);
    add_rates(report, "", suffix, rates);
    report.result("local_lock_mops" + suffix, local);
    const auto add = [&](const std::string& key_suffix) {
      report.ratio("backoff_lock_vs_local" + key_suffix, rates.backoff / local, 0);
      report.ratio("backoff_lock_vs_rpc" + key_suffix, rates.backoff / rates.rpc_lock, 0);
      report.ratio("plain_lock_vs_rpc" + key_suffix, rates.plain / rates.rpc_lock, 0);
      report.ratio("sequencer_vs_rpc" + key_suffix, rates.sequencer / rates.rpc_sequencer, 0);
    };
    add(suffix);
    if (threads == 14) add("");
  }
  return {};
}

Result<void> add_real(const std::string& provider, const std::string& prefix, const Options& options,
                      Report& report) {
  YONDER_TRY(rig, Rig::create({.provider = provider}));
  YONDER_TRY(requests, Requests::create(*rig));
  std::vector<double> locks, sequencers;
  for (int round = 0; round < (options.quick ? 5 : 11); ++round) {
    YONDER_TRY(rates, rates_of(*rig, *requests, options.quick));
    locks.push_back(rates.backoff / rates.rpc_lock);
    sequencers.push_back(rates.sequencer / rates.rpc_sequencer);
    add_rates(report, prefix, "", rates);
  }
  report.ratio(prefix + "backoff_lock_vs_rpc", locks);
  report.ratio(prefix + "sequencer_vs_rpc", sequencers);
  return {};
}

}  // namespace

double local_lock_mops(std::uint32_t threads) { return 1e3 / (67.0 + 424.0 * (threads - 1)); }

Result<void> run_atomics_bench(const Options& options, Report& report) {
  report.param("seed", static_cast<double>(options.seed));
  return for_providers(options, report, {"sim", "shm", "tcp"}, [&](const std::string& provider) {
    if (provider == "sim") return add_simulated(options, report);
    return add_real(provider, key_prefix(options, provider), options, report);
  });
}

}  // namespace yonder::bench
