// Messages of the conformance suite: send, receive, immediate data.
#include <cstring>
#include <numeric>

#include "yonder/fabric/conformance/bed.h"

namespace yonder::fabric::conformance {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_P(Conformance, DeliversAMessageIntoAPostedBuffer) {
  std::vector<std::byte> buffer(256);
  const ReceiveRequest receive{.user_data = 42, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(server_->post_receive({&receive, 1}));
  const std::string hello = "hello, yonder";
  const auto sent = client_->send(LocalPiece::of(bytes_of(hello)), 7, soon()).wait();
  ASSERT_TRUE(sent) << sent.error();
  const auto got = collect(*server_queue_, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].op, Op::kReceive);
  EXPECT_EQ(got[0].user_data, 42u);
  EXPECT_EQ(got[0].immediate, 7u);
  EXPECT_EQ(got[0].endpoint, server_->id());
  EXPECT_EQ(text_of(std::span(buffer).first(got[0].length)), hello);
}

// Counts its calls; what a server or an awaited rpc call hangs on its receives.
class CountedReceive : public Operation {
 public:
  CountedReceive() : Operation(&on_done) {}
  ReceiveRequest request(std::span<std::byte> buffer) {
    return {.user_data = reinterpret_cast<std::uint64_t>(static_cast<Operation*>(this)),
            .buffer = LocalPiece::of(buffer),
            .flags = RequestFlags::kOperation};
  }
  int calls = 0;
  Completion last;

 private:
  static void on_done(Operation& self, const Completion& completion) {
    auto& receive = static_cast<CountedReceive&>(self);
    ++receive.calls;
    receive.last = completion;
  }
};

TEST_P(Conformance, AReceiveWithAnOperationIsHandedOverByACall) {
  std::vector<std::byte> buffer(256);
  CountedReceive filled;
  CountedReceive cancelled;
  const ReceiveRequest receives[] = {filled.request(std::span(buffer).first(128)),
                                     cancelled.request(std::span(buffer).subspan(128))};
  ASSERT_TRUE(server_->post_receive(receives));
  const std::string hello = "hello, operation";
  ASSERT_TRUE(client_->send(LocalPiece::of(bytes_of(hello)), 7, soon()).wait());
  // A wait returns when the Operation was called or is there to be called.
  for (int i = 0; i < 1000 && filled.calls == 0; ++i) {
    server_queue_->poll({});
    if (filled.calls == 0) (void)server_queue_->wait(soon(std::chrono::milliseconds(10)));
  }
  ASSERT_EQ(filled.calls, 1);
  EXPECT_EQ(filled.last.op, Op::kReceive);
  EXPECT_EQ(filled.last.immediate, 7u);
  EXPECT_EQ(text_of(std::span(buffer).first(filled.last.length)), hello);
  server_->close();
  server_queue_->poll({});
  EXPECT_EQ(cancelled.calls, 1);
  EXPECT_EQ(cancelled.last.status, ErrorCode::kCancelled);
}

TEST_P(Conformance, AnswersTravelBackOnTheSameConnection) {
  std::vector<std::byte> buffer(64);
  const ReceiveRequest receive{.user_data = 1, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(client_->post_receive({&receive, 1}));
  const std::string answer = "an answer";
  ASSERT_TRUE(server_->send(LocalPiece::of(bytes_of(answer)), 0, soon()).wait());
  const auto got = collect(*client_queue_, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(text_of(std::span(buffer).first(got[0].length)), answer);
}

TEST_P(Conformance, KeepsMessagesInOrderAndWhole) {
  constexpr std::size_t kCount = 50;
  constexpr std::size_t kBuffer = 4096;
  std::vector<std::byte> storage(kCount * kBuffer);
  std::vector<ReceiveRequest> receives(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    receives[i] = {.user_data = i,
                   .buffer = LocalPiece::of(std::span(storage).subspan(i * kBuffer, kBuffer))};
  }
  ASSERT_TRUE(server_->post_receive(receives));
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::string message(1 + i * 80, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(client_->send(LocalPiece::of(bytes_of(message)), 0, soon()).wait()) << i;
  }
  const auto got = collect(*server_queue_, kCount);
  ASSERT_EQ(got.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(got[i].user_data, i);
    EXPECT_EQ(text_of(std::span(storage).subspan(i * kBuffer, got[i].length)),
              std::string(1 + i * 80, static_cast<char>('a' + i % 26)));
  }
}

TEST_P(Conformance, CarriesTheLongestMessageAndAnEmptyOne) {
  std::vector<std::byte> storage(2 * 64 * 1024);
  const ReceiveRequest receives[] = {
      {.user_data = 0, .buffer = LocalPiece::of(std::span(storage).first(65536))},
      {.user_data = 1, .buffer = LocalPiece::of(std::span(storage).subspan(65536))}};
  ASSERT_TRUE(server_->post_receive(receives));
  const std::string longest(client_->limits().max_message, 'x');
  const auto sent = client_->send(LocalPiece::of(bytes_of(longest)), 0, soon()).wait();
  ASSERT_TRUE(sent) << sent.error();
  ASSERT_TRUE(client_->send(LocalPiece{}, 3, soon()).wait());
  const auto got = collect(*server_queue_, 2);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].length, longest.size());
  EXPECT_EQ(text_of(std::span(storage).first(got[0].length)), longest);
  EXPECT_EQ(got[1].length, 0u);
  EXPECT_EQ(got[1].immediate, 3u);
}

TEST_P(Conformance, RefusesAMessageBeyondTheLimit) {
  const std::string huge(std::size_t{client_->limits().max_message} + 1, 'x');
  const auto sent = client_->send(LocalPiece::of(bytes_of(huge)), 0, soon()).wait();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error(), ErrorCode::kMessageTooLong);
}

TEST_P(Conformance, ASendWithoutAReceiverFailsAtItsDeadline) {
  const std::string message = "nobody listens";
  const auto sent =
      client_->send(LocalPiece::of(bytes_of(message)), 0, soon(std::chrono::milliseconds(50))).wait();
  ASSERT_FALSE(sent);
  EXPECT_TRUE(sent.error() == ErrorCode::kReceiverNotReady || sent.error() == ErrorCode::kDeadlineExceeded)
      << sent.error();
}

TEST_P(Conformance, WriteImmTellsTheTargetWhenTheBytesAreThere) {
  std::vector<std::byte> buffer(16);
  const ReceiveRequest receive{.user_data = 11, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(server_->post_receive({&receive, 1}));
  const std::string payload(3000, 'w');
  const auto done = client_->write_imm(LocalPiece::of(bytes_of(payload)), token_.at(1000), 99, soon()).wait();
  ASSERT_TRUE(done) << done.error();
  const auto got = collect(*server_queue_, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].op, Op::kReceiveImm);
  EXPECT_EQ(got[0].immediate, 99u);
  EXPECT_EQ(got[0].length, payload.size());
  EXPECT_EQ(got[0].user_data, 11u);
  EXPECT_EQ(std::memcmp(memory_.bytes.data() + 1000, payload.data(), payload.size()), 0);
}

TEST_P(Conformance, ManyEndpointsTakeFromOneSharedReceiveQueue) {
  auto shared = bed_->target().create_receive_queue({.capacity = 16});
  ASSERT_TRUE(shared) << shared.error();
  auto listener = bed_->target().listen({.address = bed_->listen_address(),
                                         .endpoint = {.receive_queue = shared->get()},
                                         .completion_queues = {server_queue_.get()}});
  ASSERT_TRUE(listener) << listener.error();
  constexpr std::size_t kClients = 3;
  std::vector<std::unique_ptr<Endpoint>> clients;
  std::vector<std::unique_ptr<Endpoint>> servers;
  for (std::size_t i = 0; i < kClients; ++i) {
    auto client = bed_->initiator().connect({.address = (*listener)->address()}, *client_queue_);
    ASSERT_TRUE(client) << client.error();
    clients.push_back(std::move(*client));
    auto server = (*listener)->accept(soon());
    ASSERT_TRUE(server) << server.error();
    servers.push_back(std::move(*server));
  }
  std::vector<std::byte> storage(8 * 64);
  std::vector<ReceiveRequest> receives(8);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    receives[i] = {.user_data = i, .buffer = LocalPiece::of(std::span(storage).subspan(i * 64, 64))};
  }
  ASSERT_TRUE((*shared)->post(receives));
  for (std::size_t i = 0; i < kClients; ++i) {
    const std::string message = "from " + std::to_string(i);
    ASSERT_TRUE(
        clients[i]->send(LocalPiece::of(bytes_of(message)), static_cast<std::uint32_t>(i), soon()).wait());
  }
  const auto got = collect(*server_queue_, kClients);
  ASSERT_EQ(got.size(), kClients);
  for (const Completion& completion : got) {
    EXPECT_EQ(completion.endpoint, servers[completion.immediate]->id());
    EXPECT_EQ(text_of(std::span(storage).subspan(completion.user_data * 64, completion.length)),
              "from " + std::to_string(completion.immediate));
  }
  const ReceiveRequest own{.buffer = LocalPiece::of(std::span(storage).first(64))};
  const auto refused = servers[0]->post_receive({&own, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ErrorCode::kInvalidArgument);
  clients.clear();
  servers.clear();
  (*shared)->close();
}

TEST_P(Conformance, RefusesMoreReceivesThanItsDepth) {
  std::vector<std::byte> buffer(64);
  const ReceiveRequest receive{.buffer = LocalPiece::of(std::span(buffer))};
  const std::vector<ReceiveRequest> many(std::size_t{server_->limits().receive_depth} + 1, receive);
  const auto posted = server_->post_receive(many);
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error(), ErrorCode::kQueueFull);
}

}  // namespace
}  // namespace yonder::fabric::conformance
