#include "bench/objects/ycsb_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/objects/node_bed.h"
#include "yonder/base/distribution.h"
#include "yonder/base/histogram.h"
#include "yonder/base/prng.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using client::ReadItem;
using client::Session;
using node::ObjectPtr;

constexpr std::uint64_t kMaxScan = 100;

struct Mix {
  unsigned read = 0;  // percent; the rest of 100 is insert
  unsigned update = 0;
  unsigned modify = 0;
  unsigned scan = 0;
  bool latest = false;
};

Mix mix_of(char workload) {
  switch (workload) {
    case 'A':
      return {.read = 50, .update = 50};
    case 'B':
      return {.read = 95, .update = 5};
    case 'C':
      return {.read = 100};
    case 'D':
      return {.read = 95, .latest = true};
    case 'E':
      return {.scan = 95};
    default:
      return {.read = 50, .modify = 50};
  }
}

// The pointer of every key. Inserted keys appear at the end, in any order.
class Index {
 public:
  Index(std::uint64_t capacity) : low_(capacity), high_(capacity) {}

  std::uint64_t size() const {
    return std::min<std::uint64_t>(size_.load(std::memory_order_acquire), low_.size());
  }
  // Null if the key was counted but not written yet.
  ObjectPtr get(std::uint64_t key) const {
    const std::uint64_t low = low_[key].load(std::memory_order_acquire);
    return ObjectPtr::from_words(low, high_[key].load(std::memory_order_relaxed));
  }
  // Also a corrected hint: identity never changes, so racing writers agree on all but it.
  void set(std::uint64_t key, ObjectPtr object) {
    high_[key].store(object.high(), std::memory_order_relaxed);
    low_[key].store(object.low(), std::memory_order_release);
  }
  bool add(ObjectPtr object) {
    const std::uint64_t key = size_.fetch_add(1, std::memory_order_acq_rel);
    if (key >= low_.size()) return false;
    set(key, object);
    return true;
  }

 private:
  std::vector<std::atomic<std::uint64_t>> low_;
  std::vector<std::atomic<std::uint64_t>> high_;
  std::atomic<std::uint64_t> size_{0};
};

struct Outcome {
  Histogram latency;  // ns, of reads and scans
  std::uint64_t operations = 0;
  std::uint64_t direct_reads = 0;
  std::uint64_t failed_reads = 0;
  bool broken = false;
};

class Client {
 public:
  Client(const YcsbOptions& options, std::unique_ptr<Session> session, Index& index, Prng random)
      : options_(options),
        mix_(mix_of(options.workload)),
        session_(std::move(session)),
        index_(index),
        random_(random),
        zipf_({.items = options.records, .theta = options.theta}),
        latest_({.items = options.records, .theta = options.theta}),
        value_(options.record_bytes) {}

  Outcome run(bool one_sided) {
    Outcome out;
    const client::SessionStats before = session_->stats();
    for (std::uint64_t i = 0; i < options_.operations; ++i) out.broken |= !operate(one_sided, out);
    out.operations = options_.operations;
    out.direct_reads = session_->stats().direct_reads - before.direct_reads;
    out.failed_reads = session_->stats().retries - before.retries;
    return out;
  }

 private:
  std::uint64_t choose() {
    const std::uint64_t known = index_.size();
    if (!mix_.latest) return zipf_.next(random_);
    if (known > latest_.items()) latest_.grow(known);
    return latest_.next(random_);
  }

  bool operate(bool one_sided, Outcome& out) {
    unsigned dice = static_cast<unsigned>(random_.below(100));
    const auto is = [&](unsigned percent) {
      if (dice < percent) return true;
      dice -= percent;
      return false;
    };
    if (is(mix_.read)) return timed(out, [&] { return read(choose(), one_sided); });
    if (is(mix_.scan)) return timed(out, [&] { return scan(choose(), one_sided); });
    if (is(mix_.update)) return write(choose());
    if (is(mix_.modify)) {
      const std::uint64_t key = choose();
      return read(key, one_sided) && write(key);
    }
    return insert();
  }

  template <typename F>
  bool timed(Outcome& out, F&& call) {
    const std::int64_t start = os::SteadyClock::read().ns();
    const bool good = call();
    out.latency.record(static_cast<std::uint64_t>(os::SteadyClock::read().ns() - start));
    return good;
  }

  bool read(std::uint64_t key, bool one_sided) {
    const ObjectPtr known = index_.get(key);
    if (!known) return true;
    ObjectPtr object = known;
    const auto version = one_sided ? session_->direct_read(object, value_) : session_->read(object, value_);
    if (object != known) index_.set(key, object);
    return version.has_value();
  }

  bool scan(std::uint64_t first, bool one_sided) {
    const std::uint64_t end = std::min(first + 1 + random_.below(kMaxScan), index_.size());
    items_.clear();
    values_.resize(kMaxScan * options_.record_bytes);
    for (std::uint64_t key = first; key < end; ++key) {
      const ObjectPtr object = index_.get(key);
      if (!object) continue;
      items_.push_back(
          {.object = object,
           .out = std::span(values_).subspan(items_.size() * options_.record_bytes, options_.record_bytes)});
    }
    one_sided ? session_->direct_read_many(items_) : session_->read_many(items_);
    return std::ranges::all_of(items_, [](const ReadItem& item) { return item.result.has_value(); });
  }

  bool write(std::uint64_t key) {
    const ObjectPtr known = index_.get(key);
    if (!known) return true;
    ObjectPtr object = known;
    std::memset(value_.data(), static_cast<int>(random_.below(256)), value_.size());
    const auto version = session_->write(object, value_);
    if (object != known) index_.set(key, object);
    return version.has_value();
  }

  bool insert() {
    const auto object = session_->alloc(options_.record_bytes);
    if (!object) return false;
    ObjectPtr made = *object;
    if (!session_->write(made, value_)) return false;
    return index_.add(made);
  }

  const YcsbOptions options_;
  const Mix mix_;
  std::unique_ptr<Session> session_;
  Index& index_;
  Prng random_;
  ScrambledZipfian zipf_;
  Latest latest_;
  std::vector<std::byte> value_;
  std::vector<ReadItem> items_;
  std::vector<std::byte> values_;
};

// All clients at once. Returns operations per second.
double run_round(std::vector<std::unique_ptr<Client>>& clients, bool one_sided, Outcome& sum) {
  std::vector<Outcome> outcomes(clients.size());
  std::vector<std::thread> threads;
  const std::int64_t start = os::SteadyClock::read().ns();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = clients[i]->run(one_sided); });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = static_cast<double>(os::SteadyClock::read().ns() - start) * 1e-9;
  std::uint64_t operations = 0;
  for (const Outcome& outcome : outcomes) {
    operations += outcome.operations;
    sum.latency.merge(outcome.latency);
    sum.operations += outcome.operations;
    sum.direct_reads += outcome.direct_reads;
    sum.failed_reads += outcome.failed_reads;
    sum.broken |= outcome.broken;
  }
  return static_cast<double>(operations) / seconds;
}

Result<void> load(NodeBed& bed, const YcsbOptions& options, Index& index) {
  YONDER_TRY(thread, bed.server().heap().register_thread());
  std::vector<std::byte> value(options.record_bytes, std::byte{1});
  for (std::uint64_t i = 0; i < options.records; ++i) {
    YONDER_TRY(object, thread.alloc(options.record_bytes));
    YONDER_TRY_VOID(thread.write(object, value));
    index.add(object);
  }
  return {};
}

}  // namespace

Result<void> measure_ycsb(const YcsbOptions& options, Report& report) {
  const std::uint64_t inserts =
      options.clients * options.operations * 2 * static_cast<std::uint64_t>(options.rounds);
  const Mix mix = mix_of(options.workload);
  const bool inserting = mix.read + mix.update + mix.modify + mix.scan < 100;
  const std::uint64_t capacity = options.records + (inserting ? inserts : 0);
  YONDER_TRY(bed, NodeBed::create(options.provider,
                                  (std::uint64_t{64} << 20) + capacity * (options.record_bytes + 64)));
  Index index(capacity);
  YONDER_TRY_VOID(load(bed, options, index));
  Prng random(options.seed);
  std::vector<std::unique_ptr<Client>> clients;
  for (unsigned i = 0; i < options.clients; ++i) {
    YONDER_TRY(session, bed.connect({.timeout = std::chrono::seconds(30)}));
    clients.push_back(std::make_unique<Client>(options, std::move(session), index, random.split()));
  }
  Outcome warm_up;
  run_round(clients, true, warm_up);
  Outcome direct;
  Outcome by_rpc;
  std::vector<double> rates;
  std::vector<double> rpc_rates;
  const auto ratios = compare(
      options.rounds, [&] { return rates.emplace_back(run_round(clients, true, direct)); },
      [&] { return rpc_rates.emplace_back(run_round(clients, false, by_rpc)); });
  if (direct.broken || by_rpc.broken)
    return fail(ErrorCode::kCorrupt, "an operation of the benchmark failed");
  const std::string name(1, options.workload);
  report.ratio(name, ratios);
  report.result(fmt::format("{}_operations_per_second_one_sided", name), median(rates));
  report.result(fmt::format("{}_operations_per_second_rpc", name), median(rpc_rates));
  for (const double quantile : {0.5, 0.99, 0.999}) {
    const std::string key = fmt::format("{}_read_p{}_ns", name, quantile * 100);
    report.result(key + "_one_sided", static_cast<double>(direct.latency.percentile(quantile * 100)));
    report.result(key + "_rpc", static_cast<double>(by_rpc.latency.percentile(quantile * 100)));
  }
  const double fraction = direct.direct_reads == 0 ? 0
                                                   : static_cast<double>(direct.failed_reads) /
                                                         static_cast<double>(direct.direct_reads);
  report.result(fmt::format("{}_failed_direct_reads_fraction", name), fraction);
  if (options.workload == 'A') report.result("failed_direct_reads_fraction", fraction);
  return {};
}

Result<void> run_ycsb_bench(const Options& options, Report& report) {
  const std::string provider = options.fabric == "all" ? "shm" : options.fabric;
  if (provider != "shm" && provider != "tcp") {
    return fail(ErrorCode::kUnsupported, "ycsb runs over shm and tcp");
  }
  report.set_fabric(provider);
  report.param("seed", static_cast<double>(options.seed));
  report.param("clients", 8);
  report.param("theta", 0.99);
  const std::uint64_t full = provider == "shm" ? 20'000 : 2'000;
  for (const char workload : {'A', 'B', 'C', 'D', 'E', 'F'}) {
    const std::uint64_t operations = options.quick ? full / 10 : full;
    YONDER_TRY_VOID(measure_ycsb({.workload = workload,
                                  .provider = provider,
                                  // A scan is some fifty reads.
                                  .operations = workload == 'E' ? operations / 10 : operations,
                                  .rounds = options.quick ? 5 : 9,
                                  .seed = options.seed},
                                 report));
  }
  return {};
}

}  // namespace yonder::bench
