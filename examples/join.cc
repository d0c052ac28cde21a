// Two executors exchange entries by a shuffle, and then join orders with customers. They are
// threads here; as processes on several hosts they would run the same code with addresses
// like tcp://host-1:7600.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "yonder/fabric/open/open.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/structures/join.h"

namespace {

using yonder::Deadline;
using yonder::Result;
using namespace yonder::structures;

constexpr std::uint32_t kExecutors = 2;
constexpr std::uint64_t kCustomers = 1000;
constexpr std::uint64_t kOrders = 10'000;
constexpr std::uint64_t kAmount = 5;  // of each order

struct Row {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  ShuffleEntry entry() const {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(this, 1));
    return {.key = bytes.first(8), .value = bytes.subspan(8)};
  }
};

std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// What an executor stands on: one thread, one queue, one scheduler.
struct Executor {
  std::uint32_t index = 0;
  std::unique_ptr<yonder::fabric::Fabric> fabric;
  std::unique_ptr<yonder::fabric::CompletionQueue> queue;
  std::unique_ptr<yonder::fabric::Scheduler> scheduler;
  std::unique_ptr<ShuffleReceiver> receiver;
  std::unique_ptr<JoinExecutor> join;
  std::vector<Row> customers;  // its part: customer → country
  std::vector<Row> orders;     // its part: customer → amount
  std::uint64_t joined = 0;    // amount
  Result<void> outcome;

  Deadline deadline() const { return Deadline::after(queue->clock(), std::chrono::seconds(30)); }
};

std::string address(const char* what, std::uint32_t index) {
  return "shm:yonder-example-" + std::string(what) + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(index);
}

// ---------------------------------------------------------------- shuffle

// Every order goes to the executor that the hash of its customer names.
yonder::fabric::Task<void> send(Executor& self, ShuffleSender& sender) {
  for (const Row& order : self.orders) {
    const Result<void> added = co_await sender.async_add(order.entry(), self.deadline());
    if (!added) self.outcome = added;
    if (!self.outcome) co_return;
  }
  const Result<void> finished = co_await sender.async_finish(self.deadline());
  if (!finished) self.outcome = finished;
}

yonder::fabric::Task<void> take(Executor& self, std::map<std::uint64_t, std::uint64_t>& turnover) {
  for (;;) {
    const Result<ShuffleBatch> batch = co_await self.receiver->async_next(self.deadline());
    if (!batch) self.outcome = std::unexpected(batch.error());
    if (!batch || batch->is_end()) break;
    for (const ShuffleEntry entry : *batch) turnover[number_in(entry.key)] += number_in(entry.value);
  }
  if (!self.outcome) co_return;
  const Result<void> finished = co_await self.receiver->async_finish(self.deadline());
  if (!finished) self.outcome = finished;
}

// Afterwards all orders of a customer are in one place, and can be added up there.
void shuffle(Executor& self, const std::vector<std::string>& receivers) {
  auto sender = ShuffleSender::connect(*self.fabric, *self.queue, *self.scheduler,
                                       {.receivers = receivers, .senders = kExecutors, .index = self.index});
  if (!sender) {
    self.outcome = std::unexpected(sender.error());
    return;
  }
  std::map<std::uint64_t, std::uint64_t> turnover;
  self.scheduler->spawn(send(self, **sender));
  self.scheduler->spawn(take(self, turnover));
  const Result<void> ran = self.scheduler->run(self.deadline());
  if (!ran) self.outcome = ran;
  std::printf("executor %u: %zu customers are mine\n", self.index, turnover.size());
}

// ---------------------------------------------------------------- join

JoinRelation relation(const std::vector<Row>& rows) {
  return {.rows = rows.size(), .at = [&rows](std::uint64_t row) { return rows[row].entry(); }};
}

// Each executor has a part of both sides, and gets a part of the result.
void join(Executor& self) {
  std::map<std::uint64_t, std::uint64_t> by_country;
  const auto stats = self.join->run(
      relation(self.customers), relation(self.orders),
      [&](const JoinRow& row) { by_country[number_in(row.build_value)] += number_in(row.probe_value); },
      self.deadline());
  if (!stats) {
    self.outcome = std::unexpected(stats.error());
    return;
  }
  for (const auto& [country, amount] : by_country) {
    self.joined += amount;
    std::printf("executor %u: country %llu bought for %llu\n", self.index,
                static_cast<unsigned long long>(country), static_cast<unsigned long long>(amount));
  }
}

// ---------------------------------------------------------------- all of it

Result<void> prepare(Executor& self, std::uint32_t index) {
  self.index = index;
  YONDER_TRY(fabric, yonder::fabric::open("shm:"));
  YONDER_TRY(queue, fabric->create_completion_queue({}));
  self.fabric = std::move(fabric);
  self.queue = std::move(queue);
  self.scheduler = std::make_unique<yonder::fabric::Scheduler>(*self.queue);
  YONDER_TRY(receiver, ShuffleReceiver::create(
                           *self.fabric, *self.queue, *self.scheduler,
                           {.address = address("shuffle", index), .senders = kExecutors, .index = index}));
  self.receiver = std::move(receiver);
  YONDER_TRY(join, JoinExecutor::create(
                       *self.fabric, *self.queue, *self.scheduler,
                       {.address = address("join", index), .executors = kExecutors, .index = index}));
  self.join = std::move(join);
  for (std::uint64_t i = index; i < kCustomers; i += kExecutors) self.customers.push_back({i, i % 3});
  for (std::uint64_t i = index; i < kOrders; i += kExecutors)
    self.orders.push_back({i * 7 % kCustomers, kAmount});
  return {};
}

// Calls step(executor) in a thread for each.
template <typename Step>
Result<void> all_at_once(std::vector<Executor>& executors, Step step) {
  std::vector<std::thread> threads;
  for (Executor& self : executors) threads.emplace_back([&] { step(self); });
  for (std::thread& thread : threads) thread.join();
  for (const Executor& self : executors) YONDER_TRY_VOID(self.outcome);
  return {};
}

Result<void> run() {
  std::vector<Executor> executors(kExecutors);
  std::vector<std::string> receivers;
  std::vector<std::string> joins;
  for (std::uint32_t i = 0; i < kExecutors; ++i) {
    YONDER_TRY_VOID(prepare(executors[i], i));
    receivers.push_back(executors[i].receiver->address());
    joins.push_back(executors[i].join->address());
  }
  YONDER_TRY_VOID(all_at_once(executors, [&](Executor& self) { shuffle(self, receivers); }));
  for (Executor& self : executors) YONDER_TRY_VOID(self.join->connect(joins));
  YONDER_TRY_VOID(all_at_once(executors, join));
  std::uint64_t joined = 0;
  for (const Executor& self : executors) joined += self.joined;
  if (joined == kOrders * kAmount) return {};
  return yonder::fail(yonder::ErrorCode::kCorrupt, "the join: its sum", joined);
}

}  // namespace

int main() {
  const Result<void> done = run();
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
