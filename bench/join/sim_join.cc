#include "bench/join/sim_join.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/join/local_join.h"
#include "bench/shuffle/sim_cluster.h"
#include "bench/shuffle/sim_shuffle.h"
#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/structures/join.h"

namespace yonder::bench {
namespace {

using fabric::Task;
using structures::JoinExecutor;
using structures::JoinRelation;
using structures::JoinRow;
using structures::JoinStats;

struct Executor {
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::vector<Tuple> tuples;  // the build side, then the probe side
  JoinRelation build_relation;
  JoinRelation probe_relation;
  structures::JoinSink sink = [](const JoinRow&) {};
  fabric::Region region;  // of `tuples`
  std::unique_ptr<JoinExecutor> executor;
  Instant end;
  Result<JoinStats> stats = fail(ErrorCode::kClosed, "not run");
};

JoinRelation relation_of(std::span<const Tuple> tuples) {
  return {.rows = tuples.size(), .at = [tuples](std::uint64_t row) {
            const std::span<const std::byte> bytes = std::as_bytes(tuples.subspan(row, 1));
            return structures::ShuffleEntry{.key = bytes.first(8), .value = bytes.subspan(8)};
          }};
}

class SimJoin {
 public:
  explicit SimJoin(const SimJoinOptions& options)
      : options_(options), cluster_(options.seed, options.numa_aware), executors_(options.executors) {}
  ~SimJoin() {
    for (Executor& self : executors_) self.executor.reset();
  }

  Result<void> gather() {
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < options_.executors; ++i) {
      YONDER_TRY_VOID(make_executor(i));
      addresses.push_back(cluster_.address_of(i));
    }
    for (std::uint32_t i = 0; i < options_.executors; ++i) {
      (void)cluster_.fabric_of(i);  // What connect() makes is placed as the executor is.
      YONDER_TRY_VOID(executors_[i].executor->connect(addresses));
    }
    return {};
  }

  Result<double> run() {
    const Instant begin = cluster_.clock().now();
    for (Executor& self : executors_) scheduler_->spawn(drive(self));
    YONDER_TRY_VOID(scheduler_->run(Deadline::after(cluster_.clock(), std::chrono::seconds(100))));
    std::uint64_t results = 0;
    Instant end;
    for (const Executor& self : executors_) {
      if (!self.stats) return std::unexpected(self.stats.error());
      results += self.stats->results;
      end = std::max(end, self.end);
    }
    if (results != rows_each() * options_.executors)
      return fail(ErrorCode::kCorrupt, "join: rows are missing", static_cast<std::int64_t>(results));
    return static_cast<double>((end - begin).count()) * 1e-9;
  }

 private:
  std::uint64_t rows_each() const { return options_.rows / options_.executors; }

  // Build keys are 0, 1, 2 … in all; every probe row finds exactly one.
  void fill(Executor& self, std::uint32_t index) const {
    const std::uint64_t keys = rows_each() * options_.executors;
    Prng random(options_.seed * 1000 + index);
    std::optional<Zipfian> skewed;
    if (options_.theta > 0) skewed.emplace(ZipfianOptions{.items = keys, .theta = options_.theta});
    for (std::uint64_t i = 0; i < rows_each(); ++i) self.tuples.push_back({rows_each() * index + i, i});
    for (std::uint64_t i = 0; i < rows_each(); ++i)
      self.tuples.push_back({skewed ? skewed->next(random) : random.below(keys), i});
    self.build_relation = relation_of(std::span(self.tuples).first(rows_each()));
    self.probe_relation = relation_of(std::span(self.tuples).subspan(rows_each()));
  }

  Result<void> make_executor(std::uint32_t index) {
    Executor& self = executors_[index];
    fabric::Fabric& fabric = cluster_.fabric_of(index);
    YONDER_TRY(queue, fabric.create_completion_queue({}));
    self.queue = std::move(queue);
    if (scheduler_ == nullptr) scheduler_ = std::make_unique<fabric::Scheduler>(*self.queue);
    fill(self, index);
    YONDER_TRY(region, fabric.register_memory({.memory = std::as_writable_bytes(std::span(self.tuples))}));
    self.region = std::move(region);
    const auto spend = [&queue_of = *self.queue](Duration duration) {
      fabric::sim::spend_cpu(queue_of, duration);
    };
    YONDER_TRY(
        executor,
        JoinExecutor::create(
            fabric, *self.queue, *scheduler_,
            {.address = cluster_.address_of(index),
             .executors = options_.executors,
             .index = index,
             .strategy = options_.strategy,
             .batch_entries = options_.batch_entries,
             .ring_bytes = 32 * 1024,
             .row_memory = self.region.local_key(),
             .sample_rows = options_.heavy_keys ? 4096u : 0u,
             .costs = {
                 .partition = kPartitionTime, .build = kBuildTime, .probe = kProbeTime, .spend = spend}}));
    self.executor = std::move(executor);
    return {};
  }

  Task<void> drive(Executor& self) {
    const Deadline deadline = Deadline::after(cluster_.clock(), std::chrono::seconds(90));
    self.stats =
        co_await self.executor->async_run(self.build_relation, self.probe_relation, self.sink, deadline);
    self.end = cluster_.clock().now();
  }

  const SimJoinOptions options_;
  SimCluster cluster_;
  std::vector<Executor> executors_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
};

}  // namespace

Result<double> measure_sim_join(const SimJoinOptions& options) {
  SimJoin join(options);
  YONDER_TRY_VOID(join.gather());
  return join.run();
}

double single_machine_seconds(std::uint64_t rows, std::uint32_t executors) {
  const Duration each = kBuildTime + kProbeTime;
  return static_cast<double>(rows) * static_cast<double>(each.count()) * 1e-9 / executors;
}

}  // namespace yonder::bench
