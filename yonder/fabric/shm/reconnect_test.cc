// News of a connection that come before its endpoint is looked at for the first time.
#include <gtest/gtest.h>

#include "yonder/fabric/shm/test_support.h"

namespace yonder::fabric::shm {
namespace {

// An initiator whose connection was lost, and then renewed if it asked for that,
// before anybody polled its queue.
struct Unseen {
  explicit Unseen(bool reconnect) {
    client = must(fabric->connect({.address = listener->address(), .reconnect = reconnect}, *client_queue));
    must(listener->accept(within())).reset();
  }

  SharedMemory memory = SharedMemory::create(4096);
  std::unique_ptr<Fabric> fabric = must(open({}));
  Region region = must(fabric->register_memory(
      {.memory = memory.bytes(), .rights = Rights::kRead, .backing = memory.backing()}));
  std::unique_ptr<CompletionQueue> server_queue = must(fabric->create_completion_queue({}));
  std::unique_ptr<CompletionQueue> client_queue = must(fabric->create_completion_queue({}));
  std::unique_ptr<Listener> listener =
      must(fabric->listen({.address = "shm:?inprocess=off", .completion_queues = {server_queue.get()}}));
  std::unique_ptr<Endpoint> client;
};

TEST(Reconnect, AConnectionRenewedBeforeTheFirstPollIsTheOneUsed) {
  Unseen world(true);
  // The service threads do this alone; the client's queue has not been polled.
  const auto renewed = must(world.listener->accept(within()));
  EXPECT_EQ(world.client_queue->poll({}), 0u);  // Hears of both connections.
  std::byte byte{};
  const auto done = world.client->read(LocalPiece{&byte, 1}, world.region.token().at(0), within()).wait();
  EXPECT_TRUE(done) << done.error();
  EXPECT_EQ(world.client->state(), EndpointState::kOpen);
}

// The queue hears of the loss while it takes the endpoint on; the news that another
// connection follows comes later. What is posted in between must wait for it.
TEST(Reconnect, ALossBeforeTheFirstPollIsFollowedByTheNextConnection) {
  Unseen world(true);
  // Takes what the client before has left, so that the next connection is the next client's.
  const auto forget_client = [&] {
    world.client.reset();
    Completion cancelled;
    while (world.client_queue->poll({&cancelled, 1}) != 0) {
    }
    while (world.listener->accept(Deadline::after(world.fabric->clock(), Duration(1)))) {
    }
    return eventually([&] { return world.listener->connection_count() == 0; });
  };
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(forget_client());
    const ConnectOptions options{.address = world.listener->address(),
                                 .min_backoff = std::chrono::milliseconds(1)};
    world.client = must(world.fabric->connect(options, *world.client_queue));
    must(world.listener->accept(within())).reset();
    // Completes when the loss is heard of; nobody sends.
    std::byte nothing[8];
    const ReceiveRequest receive{.buffer = LocalPiece::of(std::span(nothing))};
    ASSERT_TRUE(world.client->post_receive({&receive, 1}));
    Completion lost;
    bool heard = world.client_queue->poll({&lost, 1}) != 0;
    // Unless this thread was so slow that the next connection was there first: then there
    // is none to be lost, and the receive waits on that one.
    std::unique_ptr<Endpoint> renewed;
    while (!heard && renewed == nullptr) {
      (void)world.client_queue->wait(Deadline::after(world.fabric->clock(), std::chrono::milliseconds(1)));
      if (auto next = world.listener->accept(Deadline::after(world.fabric->clock(), Duration(1)))) {
        renewed = *std::move(next);
      }
      heard = world.client_queue->poll({&lost, 1}) != 0;
    }
    if (heard) {
      EXPECT_EQ(lost.status, ErrorCode::kConnectionLost);
    }
    std::byte byte{};
    const auto read = [&] {
      return world.client->read(LocalPiece{&byte, 1}, world.region.token().at(0), within()).wait();
    };
    auto done = read();
    // Posted before the loss was heard of: it was under way.
    if (!heard && !done && done.error() == ErrorCode::kConnectionLost) done = read();
    ASSERT_TRUE(done) << done.error() << " in round " << round;
  }
}

TEST(Reconnect, ALossBeforeTheFirstPollBreaksWhatDoesNotReconnect) {
  Unseen world(false);
  ASSERT_TRUE(eventually([&] { return world.listener->connection_count() == 0; }));
  const auto done = world.client->fetch_add(world.region.token().at(0), 1, within()).wait();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), ErrorCode::kConnectionLost);
  EXPECT_EQ(world.client->state(), EndpointState::kBroken);
}

}  // namespace
}  // namespace yonder::fabric::shm
