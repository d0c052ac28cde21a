// The rpc suite: calls and their answers.
#include <array>
#include <cstring>

#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
namespace {

using namespace std::chrono_literals;

TEST_P(RpcSuite, ACallIsAnswered) {
  serve();
  auto client = connect();
  const Result<Number> answer = client->call<Echo>({.value = 7}).wait();
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_EQ(answer->value, 7u);
  EXPECT_EQ(client->outstanding(), 0u);
}

TEST_P(RpcSuite, ManyCallsInARowAreAnswered) {
  serve();
  auto client = connect();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Result<Number> answer = client->call<Echo>({.value = i}).wait();
    ASSERT_TRUE(answer) << answer.error() << " after " << i;
    ASSERT_EQ(answer->value, i);
  }
  client->check_invariants();
}

TEST_P(RpcSuite, LongMessagesTravelWhole) {
  serve();
  auto client = connect({.max_response = 16 * 1024});
  for (std::size_t length : {0u, 1u, 15u, 16u, 17u, 100u, 1000u, 5000u, 16000u}) {
    const std::string text(length, 'x');
    const Result<Text> answer = client->call<Repeat>({.text = text, .times = 1}).wait();
    ASSERT_TRUE(answer) << answer.error() << " of " << length;
    EXPECT_EQ(answer->text, text);
  }
}

TEST_P(RpcSuite, RawCallsCopyIntoTheCallersBuffer) {
  serve();
  auto client = connect();
  const Number request{.value = 77};
  Number answer;
  const auto length = client
                          ->call_raw(Echo::kMethod, std::as_bytes(std::span(&request, 1)),
                                     std::as_writable_bytes(std::span(&answer, 1)))
                          .wait();
  ASSERT_TRUE(length) << length.error();
  EXPECT_EQ(*length, sizeof answer);
  EXPECT_EQ(answer.value, 77u);
  std::array<std::byte, 4> small{};
  EXPECT_EQ(client->call_raw(Echo::kMethod, std::as_bytes(std::span(&request, 1)), small).wait().error(),
            ErrorCode::kMessageTooLong);
}

TEST_P(RpcSuite, ABatchIsAnsweredWhole) {
  serve();
  auto client = connect();
  std::vector<Number> requests(500);
  std::vector<Result<Number>> results(500);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].value = i * i;
  client->call_many<Echo>(requests, results, soon());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(results[i]) << results[i].error();
    EXPECT_EQ(results[i]->value, i * i);
  }
  client->check_invariants();
}

TEST_P(RpcSuite, AnEmptyBatchReturnsAtOnce) {
  serve();
  auto client = connect();
  client->call_many<Echo>({}, {});
}

TEST_P(RpcSuite, AwaitedCallsRunSideBySide) {
  serve();
  auto client = connect();
  int done = 0;
  const auto one = [&](std::uint64_t start) -> fabric::Task<void> {
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Result<Number> answer = co_await client->call<Echo>({.value = start + i});
      EXPECT_TRUE(answer) << answer.error();
      if (answer) {
        EXPECT_EQ(answer->value, start + i);
      }
    }
    ++done;
  };
  for (std::uint64_t task = 0; task < 50; ++task) client.scheduler->spawn(one(task * 1000));
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_EQ(done, 50);
  client->check_invariants();
}

TEST_P(RpcSuite, AnswersMayComeInAnyOrder) {
  serve();
  auto client = connect();
  std::vector<std::uint64_t> order;
  const auto one = [&](std::uint64_t number) -> fabric::Task<void> {
    const Result<Number> answer = co_await client->call<Later>({.value = number});
    EXPECT_TRUE(answer) << answer.error();
    order.push_back(number);
  };
  for (std::uint64_t i = 0; i < 3; ++i) client.scheduler->spawn(one(i));
  ASSERT_TRUE(eventually([&] { return kept() == 3; }));
  std::vector<Responder<Later>> responders = take_kept();
  std::move(responders[2]).respond({});
  ASSERT_TRUE(eventually([&] {
    client.queue->poll({});
    return order.size() == 1;
  }));
  std::move(responders[0]).respond({});
  std::move(responders[1]).respond({});
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_EQ(order.front(), 2u);
  EXPECT_EQ(order.size(), 3u);
}

TEST_P(RpcSuite, TenantAndEpochReachTheHandler) {
  options.identity.epoch = Epoch{3};
  serve();
  auto client = connect({.tenant = TenantId{9}, .epoch = Epoch{4}});
  const Result<Number> answer = client->call<WhoAmI>({}).wait();
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_EQ(answer->value, std::uint64_t{9} << 32 | 4);
  EXPECT_EQ(client->server_epoch(), Epoch{3});
}

TEST_P(RpcSuite, TheApplicationsGreetingReachesTheClient) {
  const std::string hello = "a token, for example";
  for (const char c : hello) options.greeting.push_back(static_cast<std::byte>(c));
  serve();
  auto client = connect();
  const auto greeting = client->greeting();
  ASSERT_EQ(greeting.size(), hello.size());
  EXPECT_EQ(std::memcmp(greeting.data(), hello.data(), hello.size()), 0);
}

TEST_P(RpcSuite, SeveralClientsShareAQueue) {
  serve();
  auto first = connect();
  auto second = Client::connect(place_->client_fabric(), server_->address(), *first.queue, {});
  ASSERT_TRUE(second) << second.error();
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(first->call<Echo>({.value = i}).wait()->value, i);
    EXPECT_EQ((*second)->call<Echo>({.value = i + 1}).wait()->value, i + 1);
  }
}

TEST_P(RpcSuite, AWorkerMethodIsAnsweredThroughThePoller) {
  serve();
  auto client = connect();
  for (std::uint64_t i = 2; i < 50; ++i) {
    const Result<Number> answer = client->call<Slow>({.value = i}).wait();
    ASSERT_TRUE(answer) << answer.error();
    EXPECT_EQ(answer->value, i);
  }
}

}  // namespace
}  // namespace yonder::rpc::suite
