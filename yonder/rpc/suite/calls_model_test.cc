// Random calls over a simulated cluster that loses, delays and breaks things,
// against a naive twin that knows what each answer must be.
//
// Every call carries a token of its own; the server notes which tokens it executed.
//   M1  Every call ends exactly once, at its deadline at the latest.
//   M2  An answer is the right one, and its call was executed exactly once.
//   M3  No call is executed twice, however it ended.
//   M4  A call that was refused (overloaded, stopping, stale, unknown) was not executed.
//   M5  In the end no slot and no exchange is in use and all credits are home.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/rpc/client.h"
#include "yonder/rpc/server.h"
#include "yonder/rpc/suite/methods.h"
#include "yonder/testing/seed.h"

namespace yonder::rpc::suite {
namespace {

using namespace std::chrono_literals;
using fabric::Task;

std::uint64_t twin_of(std::uint64_t token) { return token * 0x9e3779b97f4a7c15 + 1; }

class CallsModel : public ::testing::TestWithParam<fabric::sim::FaultRates> {
 protected:
  static constexpr std::uint32_t kClients = 6;
  static constexpr int kCallsPerTask = 40;

  void make_server() {
    auto server = Server::create(world_.host(0).fabric(), {.address = "sim://host0:7400",
                                                           .pollers = 0,
                                                           .credits = 4,
                                                           .exchanges = 24,
                                                           .max_connections = 256,
                                                           .send_timeout = 5ms});
    ASSERT_TRUE(server) << server.error();
    server_ = *std::move(server);
    server_->handle<Echo>([this](const Context&, const Number& n) -> Result<Number> {
      ++executed_[n.value];
      return Number{twin_of(n.value)};
    });
    server_->handle<Later>([this](const Context&, const Number& n, Responder<Later> responder) {
      ++executed_[n.value];
      scheduler_->spawn(answer_later(n.value, std::move(responder)));
    });
    server_->handle_task<Slow>(*scheduler_, [this](Context, Number n) -> Task<Result<Number>> {
      ++executed_[n.value];
      co_await scheduler_->sleep_for(Duration(prng_.below(100'000)));
      co_return Number{twin_of(n.value)};
    });
    ASSERT_TRUE(server_->start());
  }

  Task<void> answer_later(std::uint64_t token, Responder<Later> responder) {
    co_await scheduler_->sleep_for(Duration(prng_.below(200'000)));
    if (prng_.chance(0.1)) co_return;  // Dropped: answers kHandlerFailed.
    std::move(responder).respond({.value = twin_of(token)});
  }

  void check_end(std::uint64_t token, const Result<Number>& answer) {
    EXPECT_TRUE(ended_.insert(token).second) << "M1";
    const int times = executed_.contains(token) ? executed_[token] : 0;
    EXPECT_LE(times, 1) << "M3";
    if (answer) {
      ++answered_;
      EXPECT_EQ(answer->value, twin_of(token)) << "M2";
      EXPECT_EQ(times, 1) << "M2";
      return;
    }
    const ErrorCode why = answer.error().code();
    ++errors_[why];
    const std::set<ErrorCode> refusals = {ErrorCode::kOverloaded, ErrorCode::kStopping,
                                          ErrorCode::kStaleEpoch, ErrorCode::kUnknownMethod};
    const std::set<ErrorCode> failures = {ErrorCode::kDeadlineExceeded, ErrorCode::kConnectionLost,
                                          ErrorCode::kHandlerFailed, ErrorCode::kReceiverNotReady};
    if (refusals.contains(why)) {
      EXPECT_EQ(times, 0) << "M4: " << answer.error();
    } else {
      EXPECT_TRUE(failures.contains(why)) << answer.error();
    }
  }

  Task<void> call_at_random(Client& client) {
    for (int i = 0; i < kCallsPerTask; ++i) {
      const std::uint64_t token = ++last_token_;
      const Duration timeout(100'000 + prng_.below(20'000'000));
      const Instant due = world_.clock().now() + timeout;
      Result<Number> answer = Number{};
      switch (prng_.below(4)) {
        case 0:
          answer = co_await client.call<Later>({token}, Deadline::at(due));
          break;
        case 1:
          answer = co_await client.call<Slow>({token}, Deadline::at(due));
          break;
        default:
          answer = co_await client.call<Echo>({token}, Deadline::at(due));
      }
      EXPECT_LE(world_.clock().now(), due + 1ms) << "M1";
      check_end(token, answer);
      client.check_invariants();
      if (prng_.chance(0.3)) co_await scheduler_->sleep_for(Duration(prng_.below(300'000)));
    }
  }

  Prng prng_{testing::test_seed()};
  fabric::sim::World world_{{.seed = testing::test_seed(), .hosts = 4}};
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::unique_ptr<Server> server_;
  std::uint64_t last_token_ = 0;
  std::uint64_t answered_ = 0;
  std::map<std::uint64_t, int> executed_;
  std::set<std::uint64_t> ended_;
  std::map<ErrorCode, int> errors_;
};

TEST_P(CallsModel, EveryCallEndsOnceWithTheRightAnswerOrATypedError) {
  queue_ = *world_.host(1).fabric().create_completion_queue({});
  scheduler_ = std::make_unique<fabric::Scheduler>(*queue_);
  make_server();
  std::vector<std::unique_ptr<fabric::CompletionQueue>> queues;
  std::vector<ClientPtr> clients;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    fabric::Fabric& fabric = world_.host(1 + i % 3).fabric();
    queues.push_back(*fabric.create_completion_queue({}));
    auto client =
        Client::connect(fabric, "sim://host0:7400", *queues.back(), {.scheduler = scheduler_.get()});
    ASSERT_TRUE(client) << client.error();
    clients.push_back(*std::move(client));
  }
  world_.inject(GetParam());
  scheduler_->spawn(server_->serve(*scheduler_));
  // More tasks than credits, so that calls also wait in line.
  for (int i = 0; i < 8; ++i) {
    for (const ClientPtr& client : clients) scheduler_->spawn(call_at_random(*client));
  }
  const std::size_t expected = 8 * kClients * kCallsPerTask;
  for (int i = 0; i < 10'000 && ended_.size() < expected; ++i) {
    (void)scheduler_->run(Deadline::after(world_.clock(), 10ms));
  }
  ASSERT_EQ(ended_.size(), expected) << "M1";
  EXPECT_GT(answered_, 0u);
  for (const auto& [token, times] : executed_) EXPECT_EQ(times, 1) << "M3: " << token;

  world_.inject({});
  server_->begin_stop();
  EXPECT_TRUE(scheduler_->run(Deadline::after(world_.clock(), 10s)));
  EXPECT_TRUE(server_->stopped()) << "M5";
  RecordProperty("answered", static_cast<int>(answered_));
  for (const auto& [code, count] : errors_) RecordProperty(std::string(error_name(code)), count);
  clients.clear();
  server_.reset();
  scheduler_.reset();
}

INSTANTIATE_TEST_SUITE_P(Faults, CallsModel,
                         ::testing::Values(fabric::sim::FaultRates{},
                                           fabric::sim::FaultRates{.loss = 0.02, .delay = 0.1},
                                           fabric::sim::FaultRates{.completion_error = 0.005},
                                           fabric::sim::FaultRates{.connection_break = 0.002},
                                           fabric::sim::FaultRates{.loss = 0.01,
                                                                   .delay = 0.05,
                                                                   .completion_error = 0.002,
                                                                   .connection_break = 0.001}));

}  // namespace
}  // namespace yonder::rpc::suite
