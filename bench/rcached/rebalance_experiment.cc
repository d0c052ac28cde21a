#include "bench/rcached/rebalance_experiment.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/rcached/bench_parameters.h"
#include "bench/rcached/cache_cluster.h"
#include "bench/rcached/routed_load.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

constexpr std::size_t kServers = 4;
constexpr std::size_t kPartitions = 128;
// Of 128: what consistent hashing may make of four servers; the first one is the hot one.
constexpr std::array<std::size_t, kServers> kShares = {44, 28, 28, 28};
// How often clients look at the map, as clients that keep one do.
constexpr Duration kMapEvery = std::chrono::milliseconds(50);
constexpr Duration kMoveTimeout = std::chrono::seconds(60);

// A stretch of the load, in windows.
struct Phase {
  std::size_t first = 0;
  std::size_t last = 0;  // one past
};

double ms_since(Instant begin) {
  return static_cast<double>((os::SteadyClock::read() - begin).count()) / 1e6;
}

// The cluster, the load on it, and what happens to them in turn.
class Experiment {
 public:
  Experiment(CacheCluster& cluster, RoutedLoad& load) : cluster_(cluster), load_(load) {}

  Result<void> spread_partitions();
  // The load runs from here…
  Result<void> run_before(Duration duration);
  Result<void> move_two_partitions(Duration afterwards);
  Result<void> drain_a_server();
  // …to here.
  Result<void> end();

  void show(Report& report) const;

 private:
  // Until the owners are as wanted.
  template <typename Wanted>
  Result<void> await_owners(Wanted wanted) {
    const Instant give_up = os::SteadyClock::read() + kMoveTimeout;
    for (;;) {
      YONDER_TRY_VOID(refresh());
      if (wanted(owners_)) return {};
      if (os::SteadyClock::read() > give_up)
        return fail(ErrorCode::kDeadlineExceeded, "partitions do not move");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  Result<void> refresh();
  Result<Phase> spend(Duration duration);
  std::vector<std::size_t> choose_two() const;
  std::array<std::uint64_t, kServers> loads() const;
  std::size_t now_window() const {
    return static_cast<std::size_t>((os::SteadyClock::read() - begun_at_) / kCacheWindow);
  }

  CacheCluster& cluster_;
  RoutedLoad& load_;
  std::vector<std::size_t> owners_;
  Instant begun_at_;

  // What was seen.
  Phase before_, move_, after_, drain_;
  std::size_t hot_ = 0;
  std::size_t cool_ = 0;
  std::size_t moved_ = 0;
  double move_ms_ = 0;
  double local_ms_ = 0;
  double drain_ms_ = 0;
};

Result<void> Experiment::refresh() {
  YONDER_TRY(owners, cluster_.owners());
  for (std::size_t i = 0; i < owners.size(); ++i) load_.set_owner(i, owners[i]);
  owners_ = std::move(owners);
  return {};
}

// Lets the load run; clients look at the map now and then.
Result<Phase> Experiment::spend(Duration duration) {
  const Instant end = os::SteadyClock::read() + duration;
  Phase phase{.first = now_window() + 1};
  while (os::SteadyClock::read() < end) {
    std::this_thread::sleep_for(kMapEvery);
    YONDER_TRY_VOID(refresh());
  }
  phase.last = now_window();
  return phase;
}

// While there is nothing in them.
Result<void> Experiment::spread_partitions() {
  std::vector<std::size_t> wanted;
  for (std::size_t server = 0; server < kServers; ++server)
    wanted.insert(wanted.end(), kShares[server], server);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    // Orders that wait are bounded.
    if (i % 32 == 0) {
      YONDER_TRY_VOID(await_owners([&](const std::vector<std::size_t>& owners) {
        return std::equal(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(i), owners.begin());
      }));
    }
    if (wanted[i] != 0) YONDER_TRY_VOID(cluster_.order(i, wanted[i]));
  }
  return await_owners([&](const std::vector<std::size_t>& owners) { return owners == wanted; });
}

std::array<std::uint64_t, kServers> Experiment::loads() const {
  std::array<std::uint64_t, kServers> loads{};
  for (std::size_t i = 0; i < owners_.size(); ++i) loads[owners_[i]] += load_.asked(i);
  return loads;
}

// The two partitions that bring the two servers closest: the largest that fit half the gap.
std::vector<std::size_t> Experiment::choose_two() const {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == hot_) candidates.push_back(i);
  }
  std::sort(candidates.begin(), candidates.end(),
            [&](std::size_t a, std::size_t b) { return load_.asked(a) > load_.asked(b); });
  const std::array<std::uint64_t, kServers> now = loads();
  std::uint64_t gap = (now[hot_] - now[cool_]) / 2;
  std::vector<std::size_t> chosen;
  for (const std::size_t partition : candidates) {
    const std::uint64_t size = load_.asked(partition);
    if (chosen.size() == 2 || size > gap) continue;
    gap -= size;
    chosen.push_back(partition);
  }
  return chosen;
}

// ---------------------------------------------------------------- the phases

Result<void> Experiment::run_before(Duration duration) {
  YONDER_TRY_VOID(load_.begin_load());
  begun_at_ = os::SteadyClock::read();
  YONDER_TRY_VOID(spend(std::chrono::seconds(1)));  // Caches and connections get warm.
  YONDER_TRY(before, spend(duration));
  before_ = before;
  const auto now = loads();
  hot_ = static_cast<std::size_t>(std::max_element(now.begin(), now.end()) - now.begin());
  cool_ = static_cast<std::size_t>(std::min_element(now.begin(), now.end()) - now.begin());
  return {};
}

Result<void> Experiment::move_two_partitions(Duration afterwards) {
  const std::vector<std::size_t> chosen = choose_two();
  moved_ = chosen.size();
  move_.first = now_window();
  const Instant ordered = os::SteadyClock::read();
  for (const std::size_t partition : chosen) YONDER_TRY_VOID(cluster_.order(partition, cool_));
  YONDER_TRY_VOID(await_owners([&](const std::vector<std::size_t>& owners) {
    return std::all_of(chosen.begin(), chosen.end(), [&](std::size_t i) { return owners[i] == cool_; });
  }));
  move_ms_ = ms_since(ordered);
  for (bool moving = true; moving;) {
    YONDER_TRY(still, cluster_.is_moving(cool_));
    moving = still;
  }
  local_ms_ = ms_since(ordered);
  // What comes late, as clients with an old map, belongs to the move.
  YONDER_TRY(settling, spend(std::chrono::seconds(1)));
  move_.last = settling.last;
  YONDER_TRY(after, spend(afterwards));
  after_ = after;
  return {};
}

Result<void> Experiment::drain_a_server() {
  // One that had no part in the move.
  std::size_t leaver = 0;
  while (leaver == hot_ || leaver == cool_ || leaver == 0) ++leaver;
  drain_.first = now_window();
  const Instant ordered = os::SteadyClock::read();
  Result<void> drained;
  {
    std::jthread order([&] { drained = cluster_.drain(leaver); });
    YONDER_TRY_VOID(await_owners([&](const std::vector<std::size_t>& owners) {
      return std::find(owners.begin(), owners.end(), leaver) == owners.end();
    }));
  }
  if (!drained) return drained;
  drain_ms_ = ms_since(ordered);
  YONDER_TRY(settling, spend(std::chrono::seconds(1)));
  drain_.last = settling.last;
  return {};
}

Result<void> Experiment::end() {
  YONDER_TRY_VOID(load_.end_load());
  YONDER_TRY_VOID(refresh());
  return load_.check_all();
}

// ---------------------------------------------------------------- what was seen

std::vector<double> p99s(const RoutedLoad& load, Phase phase) {
  std::vector<double> out;
  const std::size_t last = std::min(phase.last, load.windows().size());
  for (std::size_t i = phase.first; i < last; ++i)
    out.push_back(static_cast<double>(load.windows()[i].latency_ns.percentile(99)) / 1e3);
  return out;
}

double worst(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

struct Rate {
  double mean_us = 0;
  double per_s = 0;
};
// Of one server, or of all.
Rate rate_of(const RoutedLoad& load, Phase phase, std::size_t first_server, std::size_t last_server) {
  std::uint64_t requests = 0;
  std::uint64_t latency_ns = 0;
  const std::size_t last = std::min(phase.last, load.windows().size());
  for (std::size_t i = phase.first; i < last; ++i) {
    for (std::size_t server = first_server; server < last_server; ++server) {
      requests += load.windows()[i].servers[server].requests;
      latency_ns += load.windows()[i].servers[server].latency_ns;
    }
  }
  const double seconds =
      static_cast<double>(last - phase.first) * static_cast<double>(kCacheWindow.count()) / 1e9;
  return {
      .mean_us = requests == 0 ? 0 : static_cast<double>(latency_ns) / static_cast<double>(requests) / 1e3,
      .per_s = seconds == 0 ? 0 : static_cast<double>(requests) / seconds};
}

void Experiment::show(Report& report) const {
  report.result("failed_requests", static_cast<double>(load_.failed()));
  report.result("lost_values", static_cast<double>(load_.lost()));
  if (!load_.first_failure().empty()) report.param("rebalance_first_failure", load_.first_failure());
  report.result("rebalance_requests", static_cast<double>(load_.requests()));
  report.result("rebalance_partitions_moved", static_cast<double>(moved_));
  report.result("rebalance_move_ms", move_ms_);
  report.result("rebalance_local_ms", local_ms_);
  report.result("rebalance_drain_ms", drain_ms_);
  const double normal = median(p99s(load_, before_));
  report.result("rebalance_window_p99_us", normal);
  for (const auto& [name, phase] : {std::pair<std::string, Phase>{"before", before_},
                                    {"move", move_},
                                    {"after", after_},
                                    {"drain", drain_}}) {
    const double worst_us = worst(p99s(load_, phase));
    report.result("rebalance_worst_p99_us_" + name, worst_us);
    report.ratio("worst_window_vs_normal_" + name, worst_us / normal, 0);
  }
  const Rate hot_before = rate_of(load_, before_, hot_, hot_ + 1);
  const Rate hot_after = rate_of(load_, after_, hot_, hot_ + 1);
  report.result("rebalance_hot_mean_us_before", hot_before.mean_us);
  report.result("rebalance_hot_mean_us_after", hot_after.mean_us);
  report.result("rebalance_requests_per_s_before", rate_of(load_, before_, 0, kServers).per_s);
  report.result("rebalance_requests_per_s_after", rate_of(load_, after_, 0, kServers).per_s);
  report.ratio("hot_mean_after_vs_before", hot_after.mean_us / hot_before.mean_us, 0);
}

// What the servers have then; 0: as much as they get, also where nothing else can be had.
Result<double> limit_serving(CacheCluster& cluster, double share) {
  if (share == 0) return 0;
  const Result<void> limited = cluster.limit_serving(share);
  if (!limited && limited.error() == ErrorCode::kUnsupported) return 0;
  if (!limited) return std::unexpected(limited.error());
  return share;
}

}  // namespace

Result<void> run_rebalance_experiment(const std::string& rcached, const Options& options, Report& report) {
  const std::uint64_t keys = number_parameter(options, "keys", options.quick ? 400'000 : 2'000'000);
  const Duration stretch = std::chrono::seconds(options.quick ? 2 : 5);
  const double share = static_cast<double>(number_parameter(options, "serving_percent", 25)) / 100;
  const std::string fabric = options.fabric == "shm" ? "shm" : "tcp";
  YONDER_TRY(cluster, CacheCluster::start({.program = rcached,
                                           .servers = kServers,
                                           .partitions = kPartitions,
                                           .memory_mib = 64 + static_cast<std::size_t>(keys * 400 >> 20),
                                           .fabric = fabric}));
  RoutedLoad load({.servers = cluster->addresses(),
                   .partitions = kPartitions,
                   .keys = keys,
                   .clients = static_cast<unsigned>(number_parameter(options, "connections", 100)),
                   .seed = options.seed});
  report.param("rebalance_keys", static_cast<double>(keys));
  report.param("rebalance_fabric", fabric);
  Experiment experiment(*cluster, load);
  YONDER_TRY_VOID(experiment.spread_partitions());
  YONDER_TRY_VOID(load.fill());
  YONDER_TRY(limited_to, limit_serving(*cluster, share));
  report.param("rebalance_serving_share", limited_to);
  YONDER_TRY_VOID(experiment.run_before(stretch));
  YONDER_TRY_VOID(experiment.move_two_partitions(stretch));
  YONDER_TRY_VOID(experiment.drain_a_server());
  YONDER_TRY_VOID(experiment.end());
  experiment.show(report);
  return {};
}

}  // namespace yonder::bench
