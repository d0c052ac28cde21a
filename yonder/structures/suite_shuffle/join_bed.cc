#include "yonder/structures/suite_shuffle/join_bed.h"
#include "yonder/testing/patience.h"

#include <algorithm>
#include <map>
#include <thread>

namespace yonder::structures::suite {
namespace {

struct Executor {
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Scheduler> scheduler;
  std::unique_ptr<JoinExecutor> executor;
  JoinRelation build;
  JoinRelation probe;
  JoinResult rows;
  JoinSink sink;
  Result<JoinStats> stats = fail(ErrorCode::kClosed, "not run");
};

JoinRelation relation_of(const Records& records) {
  return {.rows = records.size(), .at = [&records](std::uint64_t row) { return entry_of(records[row]); }};
}

std::string row_text(const std::string& key, const std::string& probe_value, const std::string& build_value) {
  return key + "|" + probe_value + "|" + build_value;
}

JoinSink sink_into(JoinResult& rows, JoinKind kind) {
  return [&rows, kind](const JoinRow& row) {
    const bool pair = row.matched && kind != JoinKind::kSemi;
    rows.push_back(
        row_text(text_of(row.key), text_of(row.probe_value), pair ? text_of(row.build_value) : "-"));
  };
}

Task<void> drive(Executor& self, Deadline deadline) {
  self.stats = co_await self.executor->async_run(self.build, self.probe, self.sink, deadline);
}

}  // namespace

JoinResult reference_join(const JoinCase& join) {
  std::multimap<std::string, std::string> table;
  for (const Records& records : join.builds) table.insert(records.begin(), records.end());
  JoinResult rows;
  for (const Records& records : join.probes) {
    for (const auto& [key, value] : records) {
      const auto [first, last] = table.equal_range(key);
      if (join.options.kind == JoinKind::kSemi) {
        if (first != last) rows.push_back(row_text(key, value, "-"));
        continue;
      }
      for (auto found = first; found != last; ++found) rows.push_back(row_text(key, value, found->second));
      if (first == last && join.options.kind == JoinKind::kLeft) rows.push_back(row_text(key, value, "-"));
    }
  }
  std::ranges::sort(rows);
  return rows;
}

void JoinSuite::SetUp() { place_ = GetParam().make(); }
void JoinSuite::TearDown() { place_.reset(); }

JoinOutcome JoinSuite::run(const JoinCase& join) {
  fabric::Fabric& fabric = place_->server_fabric();
  const bool is_virtual = fabric.capabilities().virtual_time;
  const Deadline deadline = Deadline::after(fabric.clock(), ::yonder::testing::kPatience);
  std::vector<Executor> executors(join.executors);
  std::vector<std::string> addresses;
  for (std::uint32_t i = 0; i < join.executors; ++i) {
    Executor& self = executors[i];
    self.queue = fabric.create_completion_queue({}).value();
    self.scheduler = std::make_unique<fabric::Scheduler>(*self.queue);
    self.build = relation_of(join.builds[i]);
    self.probe = relation_of(join.probes[i]);
    self.sink = sink_into(self.rows, join.options.kind);
    JoinOptions options = join.options;
    options.address = place_->listen_address();
    options.executors = join.executors;
    options.index = i;
    if (!is_virtual) options.timeout = ::yonder::testing::kPatience;
    fabric::Scheduler& scheduler = is_virtual ? *executors[0].scheduler : *self.scheduler;
    self.executor = JoinExecutor::create(fabric, *self.queue, scheduler, options).value();
    addresses.push_back(self.executor->address());
  }
  for (Executor& self : executors) {
    const auto connected = self.executor->connect(addresses);
    EXPECT_TRUE(connected) << connected.error();
  }
  std::vector<std::thread> threads;
  for (Executor& self : executors) {
    if (is_virtual) {
      executors[0].scheduler->spawn(drive(self, deadline));
    } else {
      threads.emplace_back([&self, deadline] { self.scheduler->block_on(drive(self, deadline)); });
    }
  }
  if (is_virtual) {
    EXPECT_TRUE(executors[0].scheduler->run(deadline)) << "an executor never ended";
  }
  for (std::thread& thread : threads) thread.join();
  JoinOutcome outcome;
  for (Executor& self : executors) {
    outcome.rows.insert(outcome.rows.end(), self.rows.begin(), self.rows.end());
    outcome.stats.push_back(self.stats);
    self.executor.reset();
  }
  std::ranges::sort(outcome.rows);
  return outcome;
}

JoinOutcome JoinSuite::run_and_check(const JoinCase& join) {
  JoinOutcome outcome = run(join);
  for (const auto& stats : outcome.stats) EXPECT_TRUE(stats) << stats.error();
  EXPECT_TRUE(outcome.rows == reference_join(join)) << outcome.rows.size() << " rows";
  return outcome;
}

}  // namespace yonder::structures::suite
