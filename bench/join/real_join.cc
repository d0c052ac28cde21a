#include "bench/join/real_join.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/lent/thread_place.h"
#include "yonder/structures/join.h"

namespace yonder::bench {
namespace {

using structures::JoinExecutor;
using structures::JoinRelation;
using structures::JoinRow;
using structures::JoinStats;

struct Executor : ThreadPlace {
  std::unique_ptr<JoinExecutor> executor;
  JoinRelation build;
  JoinRelation probe;
  std::uint64_t checksum = 0;
  Result<JoinStats> stats = fail(ErrorCode::kClosed, "not run");
};

JoinRelation part_of(std::span<const Tuple> tuples, std::uint32_t index, std::uint32_t parts) {
  const std::size_t first = tuples.size() * index / parts;
  const std::size_t last = tuples.size() * (index + 1) / parts;
  const std::span<const Tuple> part = tuples.subspan(first, last - first);
  return {.rows = part.size(), .at = [part](std::uint64_t row) {
            const std::span<const std::byte> bytes = std::as_bytes(part.subspan(row, 1));
            return structures::ShuffleEntry{.key = bytes.first(8), .value = bytes.subspan(8)};
          }};
}

std::uint64_t number_of(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

Result<void> make_executors(std::vector<Executor>& executors, std::span<const Tuple> build,
                            std::span<const Tuple> probe, std::string_view provider) {
  const auto count = static_cast<std::uint32_t>(executors.size());
  std::vector<std::string> addresses;
  for (std::uint32_t i = 0; i < count; ++i) {
    Executor& self = executors[i];
    YONDER_TRY_VOID(self.open(provider));
    self.build = part_of(build, i, count);
    self.probe = part_of(probe, i, count);
    YONDER_TRY(executor, JoinExecutor::create(*self.fabric, *self.queue, *self.scheduler,
                                              {.address = free_address(provider),
                                               .executors = count,
                                               .index = i,
                                               .expected_build_rows = build.size() / count,
                                               .timeout = std::chrono::seconds(30)}));
    self.executor = std::move(executor);
    addresses.push_back(self.executor->address());
  }
  for (Executor& self : executors) YONDER_TRY_VOID(self.executor->connect(addresses));
  return {};
}

void run_executor(Executor& self) {
  const auto sink = [&self](const JoinRow& row) {
    self.checksum += number_of(row.key) + number_of(row.probe_value) + number_of(row.build_value);
  };
  const Deadline deadline = Deadline::after(self.queue->clock(), std::chrono::seconds(300));
  self.stats = self.executor->run(self.build, self.probe, sink, deadline);
}

}  // namespace

Result<LocalJoin> run_real_join(std::span<const Tuple> build, std::span<const Tuple> probe,
                                const RealJoinOptions& options) {
  std::vector<Executor> executors(options.executors);
  YONDER_TRY_VOID(make_executors(executors, build, probe, options.provider));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (Executor& self : executors) threads.emplace_back([&self] { run_executor(self); });
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  LocalJoin join{.seconds = elapsed.count()};
  Result<void> outcome;
  for (Executor& self : executors) {
    if (!self.stats) outcome = std::unexpected(self.stats.error());
    join.results += self.stats ? self.stats->results : 0;
    join.checksum += self.checksum;
    self.executor.reset();
  }
  if (!outcome) return std::unexpected(outcome.error());
  return join;
}

}  // namespace yonder::bench
