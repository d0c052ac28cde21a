// Connections of the conformance suite: hand-shake, deadlines, closing, loss.
#include <algorithm>
#include <cstring>
#include <thread>

#include "yonder/fabric/conformance/bed.h"

namespace yonder::fabric::conformance {
namespace {

TEST_P(Conformance, TheGreetingArrivesWithTheConnection) {
  const auto token = RegionToken::decode(client_->greeting());
  ASSERT_TRUE(token) << token.error();
  EXPECT_EQ(*token, token_);
}

TEST_P(Conformance, BothSidesAgreeOnVersionAndIdentity) {
  EXPECT_EQ(client_->agreement().version, kProtocolVersion);
  EXPECT_EQ(server_->agreement().version, kProtocolVersion);
  auto tenant = bed_->initiator().connect(
      {.address = listener_->address(), .identity = {.tenant = TenantId{42}, .epoch = Epoch{7}}},
      *client_queue_);
  ASSERT_TRUE(tenant) << tenant.error();
  const auto peer = accept();
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->agreement().peer.tenant, TenantId{42});
  EXPECT_EQ(peer->agreement().peer.epoch, Epoch{7});
  EXPECT_NE(peer->id(), server_->id());
}

TEST_P(Conformance, ConnectingToNobodyFailsWithinItsTime) {
  const auto endpoint = bed_->initiator().connect(
      {.address = bed_->listen_address(), .connect_timeout = std::chrono::seconds(2)}, *client_queue_);
  ASSERT_FALSE(endpoint);
  EXPECT_TRUE(endpoint.error() == ErrorCode::kConnectionRefused ||
              endpoint.error() == ErrorCode::kDeadlineExceeded ||
              endpoint.error() == ErrorCode::kAddressInvalid)
      << endpoint.error();
}

TEST_P(Conformance, NonsenseAddressesAreRefused) {
  for (const char* text : {"", "nonsense", "gopher://x", "tcp://", "verbs://host", "shm:?=1", "sim://"}) {
    const auto listener = bed_->target().listen({.address = text, .passive = true});
    ASSERT_FALSE(listener) << text;
    EXPECT_EQ(listener.error(), ErrorCode::kAddressInvalid) << text;
    const auto endpoint = bed_->initiator().connect({.address = text}, *client_queue_);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error(), ErrorCode::kAddressInvalid) << text;
  }
}

TEST_P(Conformance, ClosingCompletesEverythingOutstandingOnce) {
  std::vector<std::byte> buffers(8 * 64);
  std::vector<ReceiveRequest> receives(8);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    receives[i] = {.user_data = 100 + i, .buffer = LocalPiece::of(std::span(buffers).subspan(i * 64, 64))};
  }
  ASSERT_TRUE(client_->post_receive(receives));
  // The peer has posted no receive, so this send is under way when we close.
  const WorkRequest stuck{.op = Op::kSend, .user_data = 1, .deadline = soon()};
  ASSERT_TRUE(client_->post({&stuck, 1}));
  client_->close();
  const auto done = collect(*client_queue_, receives.size() + 1);
  ASSERT_EQ(done.size(), receives.size() + 1);
  std::vector<std::uint64_t> seen;
  for (const Completion& completion : done) {
    EXPECT_EQ(completion.status, ErrorCode::kCancelled);
    seen.push_back(completion.user_data);
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_TRUE(collect(*client_queue_, 1, std::chrono::milliseconds(5)).empty());
  const auto late = client_->post({&stuck, 1});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), ErrorCode::kClosed);
  EXPECT_EQ(client_->state(), EndpointState::kClosed);
  client_->close();  // Idempotent.
}

TEST_P(Conformance, CompletionsSurviveTheirEndpoint) {
  std::byte buffer[64];
  const ReceiveRequest receive{.user_data = 5, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(client_->post_receive({&receive, 1}));
  const EndpointId id = client_->id();
  client_.reset();
  const auto done = collect(*client_queue_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].endpoint, id);
  EXPECT_EQ(done[0].status, ErrorCode::kCancelled);
}

TEST_P(Conformance, APeerThatClosesEndsOurReceives) {
  std::byte buffer[64];
  const ReceiveRequest receive{.user_data = 5, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(server_->post_receive({&receive, 1}));
  client_.reset();
  const auto done = collect(*server_queue_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, ErrorCode::kConnectionLost);
  EXPECT_EQ(server_->state(), EndpointState::kBroken);
  const WorkRequest send{.op = Op::kSend, .user_data = 6, .deadline = soon()};
  ASSERT_TRUE(server_->post({&send, 1}));
  const auto failed = collect(*server_queue_, 1);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].status, ErrorCode::kConnectionLost);
}

TEST_P(Conformance, AnInitiatorReconnectsAndGoesOn) {
  std::byte buffer[64];
  const ReceiveRequest receive{.user_data = 5, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(client_->post_receive({&receive, 1}));
  server_.reset();
  const auto lost = collect(*client_queue_, 1);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].status, ErrorCode::kConnectionLost);
  // Posted while reconnecting: waits for the connection.
  expect_healthy();
  EXPECT_EQ(client_->state(), EndpointState::kOpen);
  server_ = accept();
  EXPECT_NE(server_, nullptr);
}

TEST_P(Conformance, WithoutReconnectALostConnectionStaysBroken) {
  auto once =
      bed_->initiator().connect({.address = listener_->address(), .reconnect = false}, *client_queue_);
  ASSERT_TRUE(once) << once.error();
  std::byte buffer[64];
  const ReceiveRequest receive{.buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE((*once)->post_receive({&receive, 1}));
  accept().reset();
  ASSERT_EQ(collect(*client_queue_, 1).size(), 1u);
  const auto done = (*once)->fetch_add(token_.at(0), 1, soon()).wait();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), ErrorCode::kConnectionLost);
  EXPECT_EQ((*once)->state(), EndpointState::kBroken);
  expect_healthy();
}

TEST_P(Conformance, APassiveListenerServesMemoryWithoutTheApplication) {
  auto listener = bed_->target().listen({.address = bed_->listen_address(), .passive = true});
  ASSERT_TRUE(listener) << listener.error();
  auto client = bed_->initiator().connect({.address = (*listener)->address()}, *client_queue_);
  ASSERT_TRUE(client) << client.error();
  EXPECT_TRUE((*client)->fetch_add(token_.at(0), 1, soon()).wait());
  EXPECT_EQ((*listener)->connection_count(), 1u);
}

TEST_P(Conformance, ListensOnlyOnceOnAnAddress) {
  const auto second = bed_->target().listen({.address = listener_->address(), .passive = true});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), ErrorCode::kAlreadyExists);
}

TEST_P(Conformance, RefusesConnectionsBeyondTheLimit) {
  auto listener =
      bed_->target().listen({.address = bed_->listen_address(), .passive = true, .max_connections = 1});
  ASSERT_TRUE(listener) << listener.error();
  auto first = bed_->initiator().connect({.address = (*listener)->address()}, *client_queue_);
  ASSERT_TRUE(first) << first.error();
  const auto second = bed_->initiator().connect(
      {.address = (*listener)->address(), .connect_timeout = std::chrono::seconds(2)}, *client_queue_);
  ASSERT_FALSE(second);
  EXPECT_TRUE((*first)->fetch_add(token_.at(0), 1, soon()).wait());
}

TEST_P(Conformance, AnOlderEpochIsRefusedAtTheDoor) {
  bed_->target().raise_epoch(Epoch{10});
  const auto old = bed_->initiator().connect(
      {.address = listener_->address(), .identity = {.epoch = Epoch{9}}}, *client_queue_);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error(), ErrorCode::kStaleEpoch);
  auto current = bed_->initiator().connect(
      {.address = listener_->address(), .identity = {.epoch = Epoch{10}}}, *client_queue_);
  EXPECT_TRUE(current);
}

TEST_P(Conformance, WaitingEndsAtItsDeadlineAndByWake) {
  const auto idle = client_queue_->wait(soon(std::chrono::milliseconds(5)));
  ASSERT_FALSE(idle);
  EXPECT_EQ(idle.error(), ErrorCode::kDeadlineExceeded);
  client_queue_->wake();
  EXPECT_TRUE(client_queue_->wait(soon()));
}

TEST_P(Conformance, WakeReachesAnotherThread) {
  if (bed_->initiator().capabilities().virtual_time) return;  // One thread only.
  std::jthread waker([this] { client_queue_->wake(); });
  EXPECT_TRUE(client_queue_->wait(soon()));
}

TEST_P(Conformance, AcceptEndsAtItsDeadline) {
  const auto nobody =
      listener_->accept(Deadline::after(bed_->target().clock(), std::chrono::milliseconds(5)));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error(), ErrorCode::kDeadlineExceeded);
  listener_->close();
  const auto closed = listener_->accept(soon());
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error(), ErrorCode::kClosed);
}

TEST_P(Conformance, AClosedListenerLeavesConnectionsAlone) {
  listener_->close();
  expect_healthy();
}

TEST_P(Conformance, AQueueTooSmallRefusesTheEndpoint) {
  auto small = bed_->initiator().create_completion_queue({.capacity = 16});
  ASSERT_TRUE(small) << small.error();
  const auto endpoint = bed_->initiator().connect({.address = listener_->address()}, **small);
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace yonder::fabric::conformance
