// Both sides at once: peers that serve each other, applications that do not poll,
// connections that come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::tcp {
namespace {

const os::SteadyClock kClock;
Deadline soon() { return Deadline::after(kClock, std::chrono::seconds(10)); }

struct Side {
  std::unique_ptr<Fabric> fabric = open().value();
  std::vector<std::byte> memory = std::vector<std::byte>(4 << 20);
  Region region = fabric->register_memory({.memory = memory, .rights = Rights::kAll}).value();
  std::unique_ptr<CompletionQueue> queue = fabric->create_completion_queue({}).value();
  std::unique_ptr<Endpoint> endpoint;
};

class Duplex : public ::testing::Test {
 protected:
  Duplex() {
    listener_ =
        server_.fabric->listen({.address = "tcp://127.0.0.1:0", .completion_queues = {server_.queue.get()}})
            .value();
    client_.endpoint = client_.fabric->connect({.address = listener_->address()}, *client_.queue).value();
    server_.endpoint = listener_->accept(soon()).value();
  }
  ~Duplex() override {
    client_.endpoint.reset();
    server_.endpoint.reset();
  }

  // Keeps `depth` long reads of the other side's memory under way until `count`
  // are done; returns how many succeeded.
  static std::size_t read_much(Side& side, const RegionToken& token, std::size_t count) {
    constexpr std::size_t kDepth = 8;
    constexpr std::size_t kBytes = 1 << 20;
    std::vector<std::byte> buffer(kDepth * kBytes);
    std::vector<LocalPiece> pieces(kDepth);
    std::size_t posted = 0;
    const auto post = [&](std::size_t slot) {
      pieces[slot] = LocalPiece::of(std::span(buffer).subspan(slot * kBytes, kBytes));
      const WorkRequest read{.user_data = slot,
                             .local = {&pieces[slot], 1},
                             .remote = token.at(slot % 4 * kBytes),
                             .deadline = soon()};
      EXPECT_TRUE(side.endpoint->post({&read, 1}));
      ++posted;
    };
    for (std::size_t i = 0; i < kDepth; ++i) post(i);
    std::size_t good = 0;
    for (std::size_t done = 0; done < count;) {
      Completion completion;
      if (side.queue->poll({&completion, 1}) == 0) {
        (void)side.queue->wait();
        continue;
      }
      ++done;
      good += completion.ok() ? 1 : 0;
      if (posted < count) post(completion.user_data);
    }
    return good;
  }

  Side server_;
  Side client_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(Duplex, PeersThatReadEachOtherAtFullSpeedDoNotBlockEachOther) {
  constexpr std::size_t kCount = 60;
  std::size_t from_server = 0;
  std::thread client([&] { from_server = read_much(client_, server_.region.token(), kCount); });
  const std::size_t from_client = read_much(server_, client_.region.token(), kCount);
  client.join();
  EXPECT_EQ(from_server, kCount);
  EXPECT_EQ(from_client, kCount);
}

TEST_F(Duplex, MemoryIsServedAlthoughItsOwnerNeverPolls) {
  // Neither side has polled: the service threads serve.
  std::uint64_t value = 0;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(server_.endpoint->read(piece, client_.region.token().at(0), soon()).wait());
  }
}

TEST_F(Duplex, MemoryIsServedAfterItsOwnerStoppedPolling) {
  std::uint64_t value = 0;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 50; ++i) client_.queue->poll({});  // The client's thread has the attention now ...
    // ... and does nothing from here on: the service must take over.
    ASSERT_TRUE(server_.endpoint->read(piece, client_.region.token().at(0), soon()).wait());
    std::ignore = client_.queue->wait(Deadline::after(kClock, std::chrono::milliseconds(1)));
    ASSERT_TRUE(server_.endpoint->read(piece, client_.region.token().at(0), soon()).wait());
  }
}

TEST_F(Duplex, MemoryIsServedWhileItsOwnerSleepsInWait) {
  std::thread sleeper([&] { (void)client_.queue->wait(soon()); });
  std::uint64_t value = 0;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(server_.endpoint->read(piece, client_.region.token().at(0), soon()).wait());
  }
  client_.queue->wake();
  sleeper.join();
}

TEST_F(Duplex, AMessageWaitsForAReceiveThatComesLater) {
  const std::string text = "patience";
  std::thread sender([&] {
    const auto sent =
        client_.endpoint->send(LocalPiece::of(std::as_bytes(std::span(text))), 5, soon()).wait();
    EXPECT_TRUE(sent) << sent.error();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::byte buffer[64];
  const ReceiveRequest receive{.user_data = 3, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(server_.endpoint->post_receive({&receive, 1}));
  sender.join();
  Completion arrived;
  ASSERT_EQ(server_.queue->poll({&arrived, 1}), 1u);
  EXPECT_EQ(arrived.length, text.size());
  EXPECT_EQ(arrived.immediate, 5u);
}

TEST_F(Duplex, ASharedReceivePostedLaterReachesWhoeverWaits) {
  auto shared = server_.fabric->create_receive_queue({.capacity = 4}).value();
  auto listener = server_.fabric
                      ->listen({.address = "tcp://127.0.0.1:0",
                                .endpoint = {.receive_queue = shared.get()},
                                .completion_queues = {server_.queue.get()}})
                      .value();
  auto client = client_.fabric->connect({.address = listener->address()}, *client_.queue).value();
  auto server = listener->accept(soon()).value();
  std::thread sender([&] {
    const auto sent = client->send(LocalPiece{}, 8, soon()).wait();
    EXPECT_TRUE(sent) << sent.error();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::byte buffer[64];
  const ReceiveRequest receive{.user_data = 3, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(shared->post({&receive, 1}));
  sender.join();
  client.reset();
  server.reset();
  listener.reset();
  shared->close();
}

TEST_F(Duplex, ManyEndpointsOnOneQueueAllMakeProgress) {
  // More than are read directly, so that the queue goes through epoll.
  std::vector<std::unique_ptr<Endpoint>> clients;
  std::vector<std::unique_ptr<Endpoint>> servers;
  for (int i = 0; i < 12; ++i) {
    const ConnectOptions options{.address = listener_->address(),
                                 .endpoint = {.depth = 8, .receive_depth = 8}};
    clients.push_back(client_.fabric->connect(options, *client_.queue).value());
    servers.push_back(listener_->accept(soon()).value());
  }
  for (int round = 0; round < 20; ++round) {
    for (auto& client : clients) {
      const WorkRequest add{
          .op = Op::kFetchAdd, .remote = server_.region.token().at(0), .operand = 1, .deadline = soon()};
      ASSERT_TRUE(client->post({&add, 1}));
    }
    std::size_t done = 0;
    for (const Deadline end = soon(); done < clients.size() && !end.passed(kClock.now());) {
      Completion completions[16];
      const std::size_t got = client_.queue->poll(completions);
      for (std::size_t i = 0; i < got; ++i) EXPECT_TRUE(completions[i].ok()) << completions[i].status;
      done += got;
      if (got == 0) (void)client_.queue->wait(end);
    }
    ASSERT_EQ(done, clients.size());
  }
  std::uint64_t sum = 0;
  std::memcpy(&sum, server_.memory.data(), 8);
  EXPECT_EQ(sum, 20 * clients.size());
  clients.clear();
  servers.clear();
}

TEST_F(Duplex, AnExpiredRequestLeavesTheConnectionAlone) {
  // The peer has posted no receive: the send can only expire.
  const auto late =
      client_.endpoint->send(LocalPiece{}, 0, Deadline::after(kClock, std::chrono::milliseconds(5))).wait();
  ASSERT_FALSE(late);
  EXPECT_TRUE(late.error() == ErrorCode::kDeadlineExceeded || late.error() == ErrorCode::kReceiverNotReady);
  EXPECT_TRUE(client_.endpoint->fetch_add(server_.region.token().at(0), 1, soon()).wait());
  EXPECT_EQ(client_.endpoint->state(), EndpointState::kOpen);
}

TEST_F(Duplex, ReconnectsAsOftenAsItIsCut) {
  for (int round = 0; round < 5; ++round) {
    server_.endpoint.reset();
    const auto done = client_.endpoint->fetch_add(server_.region.token().at(0), 1, soon()).wait();
    // The first request may meet the cut itself.
    if (!done) {
      EXPECT_EQ(done.error(), ErrorCode::kConnectionLost);
      ASSERT_TRUE(client_.endpoint->fetch_add(server_.region.token().at(0), 1, soon()).wait());
    }
    server_.endpoint = listener_->accept(soon()).value();
  }
}

TEST_F(Duplex, RequestsWaitForAConnectionOnlyUntilTheirDeadline) {
  listener_.reset();
  server_.endpoint.reset();
  // Nobody will come back.
  std::size_t expired = 0;
  for (int i = 0; i < 3; ++i) {
    const auto done = client_.endpoint
                          ->fetch_add(server_.region.token().at(0), 1,
                                      Deadline::after(kClock, std::chrono::milliseconds(30)))
                          .wait();
    ASSERT_FALSE(done);
    expired += done.error() == ErrorCode::kDeadlineExceeded ? 1 : 0;
  }
  EXPECT_GE(expired, 2u);
  EXPECT_EQ(client_.endpoint->state(), EndpointState::kReconnecting);
}

}  // namespace
}  // namespace yonder::fabric::tcp
