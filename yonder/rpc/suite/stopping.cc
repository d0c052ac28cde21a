// The rpc suite: stopping servers, hostile and slow clients.
#include <array>

#include "yonder/rpc/suite/bed.h"

namespace yonder::rpc::suite {
namespace {

using namespace std::chrono_literals;

TEST_P(RpcSuite, AStoppingServerRefusesNewRequestsAndFinishesTheOldOnes) {
  serve();
  auto client = connect();
  Result<Number> old = Number{};
  const auto call = [&]() -> fabric::Task<void> { old = co_await client->call<Later>({}); };
  client.scheduler->spawn(call());
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  server_->begin_stop();
  EXPECT_EQ(client->call<Echo>({}).wait().error(), ErrorCode::kStopping);
  std::move(take_kept()[0]).respond({.value = 5});
  const Result<void> stopped = server_->stop(soon());
  EXPECT_TRUE(stopped) << stopped.error();
  ASSERT_TRUE(client.scheduler->run(soon()));
  ASSERT_TRUE(old) << old.error();
  EXPECT_EQ(old->value, 5u);
}

TEST_P(RpcSuite, AfterTheGoodbyeCallsFailAtOnce) {
  serve();
  auto client = connect();
  ASSERT_TRUE(client->call<Echo>({}).wait());
  ASSERT_TRUE(server_->stop(soon()));
  const Result<Number> answer = client->call<Echo>({}, soon(200ms)).wait();
  ASSERT_FALSE(answer);
  EXPECT_TRUE(answer.error() == ErrorCode::kStopping || answer.error() == ErrorCode::kConnectionLost ||
              answer.error() == ErrorCode::kDeadlineExceeded)
      << answer.error();
}

TEST_P(RpcSuite, AStopThatCannotFinishClosesAtItsDeadline) {
  serve();
  auto client = connect();
  Result<Number> answer = Number{};
  const auto call = [&]() -> fabric::Task<void> { answer = co_await client->call<Later>({}, soon(2s)); };
  client.scheduler->spawn(call());
  ASSERT_TRUE(eventually([&] { return kept() == 1; }));
  EXPECT_EQ(server_->stop(soon(20ms)).error(), ErrorCode::kDeadlineExceeded);
  ASSERT_TRUE(client.scheduler->run(soon()));
  ASSERT_FALSE(answer);
  take_kept().clear();
  EXPECT_TRUE(server_->stop(soon()));
}

TEST_P(RpcSuite, StoppingTwiceIsHarmless) {
  serve();
  EXPECT_TRUE(server_->stop(soon()));
  EXPECT_TRUE(server_->stop(soon()));
  EXPECT_TRUE(server_->stopped());
}

// A raw endpoint that speaks the protocol as badly as the test wants.
class RawClient {
 public:
  RawClient(fabric::Fabric& fabric, const std::string& address) {
    auto queue = fabric.create_completion_queue({});
    EXPECT_TRUE(queue);
    queue_ = *std::move(queue);
    auto endpoint = fabric.connect({.address = address, .reconnect = false}, *queue_);
    EXPECT_TRUE(endpoint) << endpoint.error();
    endpoint_ = *std::move(endpoint);
  }
  void post_receives(std::uint32_t count) {
    memory_.resize(count * kBytes);
    for (std::uint32_t i = 0; i < count; ++i) {
      const fabric::ReceiveRequest receive{
          .user_data = i, .buffer = fabric::LocalPiece::of(std::span(memory_).subspan(i * kBytes, kBytes))};
      ASSERT_TRUE(endpoint_->post_receive({&receive, 1}));
    }
  }
  Result<void> send(std::span<const std::byte> message, Deadline deadline) {
    const auto sent = endpoint_->send(fabric::LocalPiece::of(message), 0, deadline).wait();
    if (!sent) return std::unexpected(sent.error());
    return {};
  }
  // A request for a method that takes a Number.
  Result<void> request(MethodId method, std::uint64_t id, Deadline deadline) {
    std::array<std::byte, kRequestHeaderBytes + sizeof(Number)> message{};
    put_header(RequestHeader{.method = method.value(),
                             .sizes = RequestHeader::pack_sizes(sizeof(Number), 10),
                             .request_id = id},
               message.data());
    return send(message, deadline);
  }
  bool is_lost() {
    queue_->poll({});
    return endpoint_->state() != fabric::EndpointState::kOpen;
  }
  fabric::Endpoint& endpoint() { return *endpoint_; }
  fabric::CompletionQueue& queue() { return *queue_; }

 private:
  static constexpr std::size_t kBytes = 2048;
  std::vector<std::byte> memory_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
};

TEST_P(RpcSuite, AClientThatIgnoresItsCreditsLosesItsConnectionAlone) {
  options.credits = 4;
  serve();
  auto good = connect();
  RawClient flooder(place_->client_fabric(), server_->address());
  flooder.post_receives(64);
  // Later never answers by itself, so the fifth request has no credit.
  for (std::uint64_t id = 1; id <= 12; ++id) {
    if (!flooder.request(Later::kMethod, id << 16, soon(200ms))) break;
  }
  EXPECT_TRUE(eventually([&] { return server_->stats().connections_closed == 1; }));
  EXPECT_TRUE(eventually([&] { return flooder.is_lost(); }));
  EXPECT_LE(kept(), 4u);
  const Result<Number> answer = good->call<Echo>({.value = 2}).wait();
  EXPECT_TRUE(answer) << answer.error();
  take_kept().clear();
}

TEST_P(RpcSuite, BytesThatAreNoRequestCloseTheirConnectionAlone) {
  serve();
  auto good = connect();
  const std::array<std::vector<std::byte>, 3> garbage = {std::vector<std::byte>(3, std::byte{0xff}),
                                                         std::vector<std::byte>(), [] {
                                                           std::vector<std::byte> lies(40);
                                                           RequestHeader header;
                                                           header.sizes = RequestHeader::pack_sizes(9000, 5);
                                                           put_header(header, lies.data());
                                                           return lies;
                                                         }()};
  std::uint64_t closed = 0;
  for (const auto& message : garbage) {
    RawClient bad(place_->client_fabric(), server_->address());
    (void)bad.send(message, soon(200ms));
    ++closed;
    EXPECT_TRUE(eventually([&] { return server_->stats().connections_closed == closed; })) << closed;
    EXPECT_TRUE(eventually([&] { return bad.is_lost(); }));
    EXPECT_TRUE(good->call<Echo>({}).wait());
  }
}

TEST_P(RpcSuite, ARequestOfAnotherVersionIsRefusedByName) {
  serve();
  RawClient future(place_->client_fabric(), server_->address());
  std::vector<std::byte> buffer(256);
  const fabric::ReceiveRequest receive{.user_data = 1, .buffer = fabric::LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(future.endpoint().post_receive({&receive, 1}));
  RequestHeader header{.version = 9, .method = 1, .request_id = 0xabcd0000};
  ASSERT_TRUE(future.send(std::as_bytes(std::span(&header, 1)), soon()));
  std::array<fabric::Completion, 1> got;
  ASSERT_TRUE(eventually([&] { return future.queue().poll(got) == 1; }));
  ResponseHeader answer;
  ASSERT_EQ(read_response(std::span(buffer).first(got[0].length), answer), ErrorCode::kOk);
  EXPECT_EQ(answer.request_id, 0xabcd0000u);
  EXPECT_EQ(answer.status, static_cast<std::uint16_t>(ErrorCode::kProtocolMismatch));
}

TEST_P(RpcSuite, AClientThatTakesNoAnswersLosesItsConnectionAlone) {
  options.send_timeout = 100ms;
  serve();
  auto good = connect();
  // It never posts a receive, so its answer has nowhere to go.
  RawClient deaf(place_->client_fabric(), server_->address());
  ASSERT_TRUE(deaf.request(Echo::kMethod, 1 << 16, soon()));
  const bool closed = eventually([&] { return server_->stats().connections_closed == 1; });
  EXPECT_TRUE(closed);
  EXPECT_TRUE(good->call<Echo>({}).wait());
}

TEST_P(RpcSuite, AConnectionThatSaysNothingIsFoundWhenItBreaks) {
  serve();
  {
    RawClient silent(place_->client_fabric(), server_->address());
    ASSERT_TRUE(silent.request(Echo::kMethod, 1 << 16, soon()));
    ASSERT_TRUE(eventually([&] { return server_->stats().connections == 1; }));
  }
  if (is_driven()) {
    // Nobody looks after connections unless somebody drives: serve() does.
    fabric::Scheduler scheduler(*idle_queue_);
    scheduler.spawn(server_->serve(scheduler));
    EXPECT_FALSE(scheduler.run(soon(200ms)));
    EXPECT_EQ(server_->stats().connections, 0u);
    server_->begin_stop();
    EXPECT_TRUE(scheduler.run(soon()));
    return;
  }
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
}

TEST_P(RpcSuite, ARequestWithoutAnExchangeIsRefusedBeforeItRuns) {
  options.exchanges = 8;  // Two per connection.
  serve();
  auto client = connect();
  int overloaded = 0;
  int done = 0;
  const auto call = [&]() -> fabric::Task<void> {
    const Result<Number> answer = co_await client->call<Later>({});
    ++done;
    if (!answer && answer.error() == ErrorCode::kOverloaded) ++overloaded;
  };
  for (int i = 0; i < 5; ++i) client.scheduler->spawn(call());
  ASSERT_TRUE(eventually([&] {
    client.queue->poll({});
    return overloaded == 3;
  }));
  EXPECT_EQ(kept(), 2u);
  auto other = connect();
  EXPECT_TRUE(other->call<Echo>({}).wait()) << "another connection has its own share";
  for (auto& responder : take_kept()) std::move(responder).respond({});
  ASSERT_TRUE(client.scheduler->run(soon()));
  EXPECT_EQ(done, 5);
}

}  // namespace
}  // namespace yonder::rpc::suite
