// The rpc suite: what goes wrong, and that it goes wrong for one call alone.
#include <array>

#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
namespace {

using namespace std::chrono_literals;

// After whatever happened, the connection still works.
void expect_alive(Client& client) {
  const Result<Number> answer = client.call<Echo>({.value = 1}).wait();
  EXPECT_TRUE(answer) << answer.error();
}

TEST_P(RpcSuite, AnUnknownMethodIsRefused) {
  serve();
  auto client = connect();
  EXPECT_EQ(client->call<Unknown>({}).wait().error(), ErrorCode::kUnknownMethod);
  EXPECT_EQ(client->call_raw(MethodId{65535}, {}, {}).wait().error(), ErrorCode::kUnknownMethod);
  expect_alive(*client.client);
}

TEST_P(RpcSuite, ARequestThatDoesNotDecodeIsRefused) {
  serve();
  auto client = connect();
  EXPECT_EQ(client->call<BadEcho>({.text = "not a number"}).wait().error(), ErrorCode::kBadRequest);
  EXPECT_EQ(client->call_raw(Echo::kMethod, {}, {}).wait().error(), ErrorCode::kBadRequest);
  expect_alive(*client.client);
}

TEST_P(RpcSuite, AHandlersErrorIsTheAnswer) {
  serve();
  auto client = connect();
  const auto code = static_cast<std::uint64_t>(ErrorCode::kNotFound);
  EXPECT_EQ(client->call<Fail>({.value = code}).wait().error(), ErrorCode::kNotFound);
  expect_alive(*client.client);
}

TEST_P(RpcSuite, AHandlerThatThrowsFailsItsCallAlone) {
  serve();
  auto client = connect();
  EXPECT_EQ(client->call<Fail>({.value = 0}).wait().error(), ErrorCode::kHandlerFailed);
  expect_alive(*client.client);
}

TEST_P(RpcSuite, ADroppedResponderAnswersThatTheHandlerFailed) {
  serve();
  auto client = connect();
  Result<Number> answer = Number{};
  const auto call = [&]() -> fabric::Task<void> { answer = co_await client->call<Later>({}); };
  client.scheduler->spawn(call());
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  take_kept().clear();
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_EQ(answer.error(), ErrorCode::kHandlerFailed);
}

TEST_P(RpcSuite, AnOldEpochIsRefused) {
  serve();
  auto client = connect({.epoch = Epoch{5}});
  expect_alive(*client.client);
  server_->raise_epoch(Epoch{6});
  EXPECT_EQ(client->call<Echo>({}).wait().error(), ErrorCode::kStaleEpoch);
  EXPECT_EQ(client->server_epoch(), Epoch{6}) << "the refusal says which epoch it is";
  client->set_epoch(client->server_epoch());
  expect_alive(*client.client);
  server_->raise_epoch(Epoch{2});
  expect_alive(*client.client);
}

TEST_P(RpcSuite, AnExpiredRequestIsNotEvenSent) {
  serve();
  auto client = connect();
  expect_alive(*client.client);
  const std::uint64_t before = server_->stats().requests;
  pass_time(1ms);
  EXPECT_EQ(client->call<Echo>({}, soon(-500us)).wait().error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(server_->stats().requests, before);
}

TEST_P(RpcSuite, NoCallWaitsPastItsDeadlineAndTheLateAnswerIsDropped) {
  serve();
  auto client = connect();
  const Instant start = place_->client_fabric().clock().now();
  EXPECT_EQ(client->call<Later>({}, soon(20ms)).wait().error(), ErrorCode::kDeadlineExceeded);
  EXPECT_GE(place_->client_fabric().clock().now() - start, 20ms);
  EXPECT_EQ(client->outstanding(), 1u) << "the server still has the request";
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  std::move(take_kept()[0]).respond({.value = 1});
  ASSERT_TRUE(eventually([&] {
    client.queue->poll({});
    return client->stats().late_answers == 1;
  }));
  EXPECT_EQ(client->outstanding(), 0u);
  expect_alive(*client.client);
}

TEST_P(RpcSuite, AnAwaitedCallEndsAtItsDeadlineToo) {
  serve();
  auto client = connect();
  std::vector<ErrorCode> ends;
  const auto call = [&](Duration timeout) -> fabric::Task<void> {
    const Result<Number> answer = co_await client->call<Later>({}, soon(timeout));
    ends.push_back(answer ? ErrorCode::kOk : answer.error().code());
  };
  const Instant start = place_->client_fabric().clock().now();
  client.scheduler->spawn(call(30ms));
  client.scheduler->spawn(call(5ms));
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_EQ(ends, std::vector(2, ErrorCode::kDeadlineExceeded));
  EXPECT_GE(place_->client_fabric().clock().now() - start, 30ms);
  take_kept().clear();
}

TEST_P(RpcSuite, ARequestBeyondTheServersLimitIsNotSent) {
  serve();
  auto client = connect();
  EXPECT_EQ(client->call<Repeat>({.text = std::string(17'000, 'x')}).wait().error(),
            ErrorCode::kMessageTooLong);
  EXPECT_EQ(client->outstanding(), 0u);
  expect_alive(*client.client);
}

TEST_P(RpcSuite, AnAnswerBeyondTheClientsBufferIsATypedError) {
  serve();
  auto client = connect({.max_response = 1024});
  EXPECT_EQ(client->call<Repeat>({.text = std::string(100, 'x'), .times = 20}).wait().error(),
            ErrorCode::kMessageTooLong);
  EXPECT_EQ(client->call<Repeat>({.text = std::string(1000, 'x'), .times = 40}).wait().error(),
            ErrorCode::kMessageTooLong);
  expect_alive(*client.client);
}

TEST_P(RpcSuite, CallsBeyondTheCreditsWaitInLine) {
  options.credits = 4;
  serve();
  auto client = connect();
  EXPECT_EQ(client->credits(), 4u);
  int done = 0;
  const auto call = [&]() -> fabric::Task<void> {
    const Result<Number> answer = co_await client->call<Later>({});
    EXPECT_TRUE(answer) << answer.error();
    ++done;
  };
  for (int i = 0; i < 10; ++i) client.scheduler->spawn(call());
  ASSERT_TRUE(eventually([&] { return kept() == 4; }));
  pass_time(5ms);
  EXPECT_EQ(kept(), 4u) << "the server never has more than it granted";
  EXPECT_EQ(client->credits(), 0u);
  while (done < 10) {
    for (auto& responder : take_kept()) std::move(responder).respond({});
    client.queue->poll({});
    pass_time(1ms);
  }
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_EQ(client->credits(), 4u);
  client->check_invariants();
}

TEST_P(RpcSuite, ACallThatWaitsForACreditKeepsItsDeadline) {
  options.credits = 1;
  serve();
  auto client = connect();
  Result<Number> first = Number{};
  const auto hold = [&]() -> fabric::Task<void> { first = co_await client->call<Later>({}); };
  client.scheduler->spawn(hold());
  EXPECT_EQ(client->call<Echo>({}, soon(20ms)).wait().error(), ErrorCode::kDeadlineExceeded);
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  std::move(take_kept()[0]).respond({});
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_TRUE(first) << first.error();
  expect_alive(*client.client);
}

TEST_P(RpcSuite, ClosingAClientCancelsItsCalls) {
  serve();
  auto client = connect();
  Result<Number> answer = Number{};
  const auto call = [&]() -> fabric::Task<void> { answer = co_await client->call<Later>({}); };
  client.scheduler->spawn(call());
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  std::vector<Responder<Later>> responders = take_kept();
  EXPECT_FALSE(responders[0].is_abandoned());
  client->close();
  EXPECT_EQ(answer.error(), ErrorCode::kCancelled);
  EXPECT_EQ(client->call<Echo>({}).wait().error(), ErrorCode::kClosed);
  // Who keeps it can know. (A driven server looks when it is driven.)
  EXPECT_TRUE(is_driven() || eventually([&] { return responders[0].is_abandoned(); }));
  // The answer to a client that is gone goes nowhere, and hurts nobody.
  std::move(responders[0]).respond({});
  auto other = connect();
  expect_alive(*other.client);
}

TEST_P(RpcSuite, AClientMayBeDestroyedByItsOwnCoroutine) {
  serve();
  auto client = connect();
  bool done = false;
  const auto call = [&]() -> fabric::Task<void> {
    ClientPtr mine = std::move(client.client);
    const Result<Number> answer = co_await mine->call<Echo>({.value = 3});
    EXPECT_TRUE(answer) << answer.error();
    done = true;
  };
  client.scheduler->spawn(call());
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_TRUE(done);
  client.queue->poll({});
}

}  // namespace
}  // namespace yonder::rpc::suite
