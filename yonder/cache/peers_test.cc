#include "yonder/cache/peers.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "yonder/cache/internal/test_client.h"
#include "yonder/cache/internal/test_cluster.h"

namespace yonder::cache {
namespace {

std::string number(int i) { return std::to_string(i); }

TEST(Peers, AnyServerAnswersForAnyKey) {
  TestCluster cluster;
  TestClient first(cluster.address(0));
  TestClient second(cluster.address(1));
  for (int i = 0; i < 50; ++i) {
    TestClient& client = i % 2 == 0 ? first : second;
    ASSERT_EQ(client.ask("set k" + number(i) + " " + number(i) + " 0 2\r\nab\r\n"), "STORED\r\n");
  }
  std::string keys = "get";
  std::string expected;
  for (int i = 0; i < 50; ++i) {
    keys += " k" + number(i) + " missing" + number(i);
    expected += "VALUE k" + number(i) + " " + number(i) + " 2\r\nab\r\n";
  }
  const auto forwarded = [&] {
    return cluster.service(0).counters()[static_cast<std::size_t>(Count::kForwarded)];
  };
  const std::uint64_t before = forwarded();
  for (TestClient* client : {&first, &second}) {
    EXPECT_EQ(client->ask(keys + "\r\n", "END\r\n"), expected + "END\r\n") << "in the order of the keys";
  }
  EXPECT_GT(forwarded(), before);
  EXPECT_LE(forwarded(), before + 4) << "keys of one owner go together";
  EXPECT_EQ(cluster.service(0).counters()[static_cast<std::size_t>(Count::kForwardFailed)], 0u);
}

TEST(Peers, EveryCommandIsForwarded) {
  TestCluster cluster;
  TestClient client(cluster.address(0));
  const std::string k = cluster.key_in(1);
  EXPECT_EQ(client.ask("set " + k + " 0 0 2\r\n10\r\n"), "STORED\r\n");
  EXPECT_EQ(client.ask("incr " + k + " 5\r\n"), "15\r\n");
  EXPECT_EQ(client.ask("append " + k + " 0 0 1\r\n0\r\n"), "STORED\r\n");
  EXPECT_EQ(client.ask("touch " + k + " 0\r\n"), "TOUCHED\r\n");
  EXPECT_EQ(client.ask("mg " + k + " v k\r\n", "150\r\n"), "VA 3 k" + k + "\r\n150\r\n");
  EXPECT_EQ(client.ask("ma " + k + " v\r\n", "151\r\n"), "VA 3\r\n151\r\n");
  EXPECT_EQ(client.ask("ms " + k + " 4 k O7\r\nMN\r\n\r\n"), "HD k" + k + " O7\r\n");
  EXPECT_EQ(client.ask("get " + k + "\r\n", "END\r\n"), "VALUE " + k + " 0 4\r\nMN\r\n\r\nEND\r\n");
  EXPECT_EQ(client.ask("gat 100 " + k + "\r\n", "END\r\n"), "VALUE " + k + " 0 4\r\nMN\r\n\r\nEND\r\n");
  EXPECT_EQ(client.ask("mg " + k + " t\r\n"), "HD t100\r\n");
  EXPECT_EQ(client.ask("me " + k + "\r\n").substr(0, 3), "ME ");
  EXPECT_EQ(client.ask("md " + k + " q\r\nmg " + k + " q\r\nmn\r\n"), "MN\r\n") << "quiet ones stay quiet";
  EXPECT_EQ(client.ask("set " + k + " 0 0 1 noreply\r\nx\r\ndelete " + k + "\r\n"), "DELETED\r\n");
  EXPECT_EQ(client.ask("delete " + k + "\r\n"), "NOT_FOUND\r\n");
  const std::string large(500000, 'l');
  EXPECT_EQ(client.ask("set " + k + " 0 0 500000\r\n" + large + "\r\n"), "STORED\r\n");
  EXPECT_EQ(client.ask("get " + k + "\r\n", "END\r\n").size(),
            large.size() + std::string("VALUE " + k + " 0 500000\r\n\r\nEND\r\n").size());
}

TEST(Peers, ServersThatNameEachOtherDoNotGoRoundInCircles) {
  TestCluster cluster({.peer_timeout = std::chrono::milliseconds(50)});
  const auto range = cluster.store(0).detach(0, cluster.address(1));
  ASSERT_TRUE(range);
  TestClient client(cluster.address(0));
  EXPECT_EQ(client.ask("get " + cluster.key_in(0) + "\r\n"),
            "SERVER_ERROR the owner of the key does not answer\r\n");
  EXPECT_EQ(client.ask("mn\r\n"), "MN\r\n");
  EXPECT_TRUE(cluster.store(0).attach(0, *range));
}

// Gives partition 0 to a server when the second one has asked for it twice.
std::thread attach_when_asked(TestCluster& cluster, std::size_t server, std::span<std::byte> range) {
  return std::thread([&cluster, server, range] {
    const auto forwarded = [&] {
      return cluster.service(1).counters()[static_cast<std::size_t>(Count::kForwarded)];
    };
    while (forwarded() < 2) std::this_thread::yield();
    EXPECT_TRUE(cluster.store(server).attach(0, range));
  });
}

TEST(Peers, AsksAgainWhenTheMapWasOld) {
  TestCluster cluster;
  const std::string key = cluster.key_in(0);
  TestClient client(cluster.address(1));
  EXPECT_EQ(client.ask("set " + key + " 0 0 1\r\nx\r\n"), "STORED\r\n");
  // The owner gives it away, and the other does not know yet.
  const auto range = cluster.store(0).detach(0, "");
  ASSERT_TRUE(range);
  ASSERT_TRUE(client.send("get " + key + "\r\n"));
  std::thread later = attach_when_asked(cluster, 0, *range);
  EXPECT_EQ(client.read_until("END\r\n"), "VALUE " + key + " 0 1\r\nx\r\nEND\r\n");
  later.join();
}

TEST(Peers, CarriesOutHereWhatHasArrivedMeanwhile) {
  TestCluster cluster;
  const std::string key = cluster.key_in(0);
  const std::string other = cluster.key_in(1);
  TestClient client(cluster.address(1));
  EXPECT_EQ(client.ask("set " + key + " 0 0 1\r\nx\r\n"), "STORED\r\n");
  const auto range = cluster.store(0).detach(0, "");
  ASSERT_TRUE(range);
  cluster.store(1).set_owner(0, "@nobody-listens-here");
  ASSERT_TRUE(client.send("get " + key + " " + other + "\r\nincr " + key + " 1\r\n"));
  std::thread later = attach_when_asked(cluster, 1, *range);
  EXPECT_EQ(client.read_until("END\r\n"), "VALUE " + key + " 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(client.read_until("\r\n"), "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  later.join();
}

TEST(Peers, TellsAClientWhereAKeyIs) {
  TestCluster cluster;
  TestClient client(cluster.address(0));
  for (const std::size_t owner : {0, 1}) {
    const std::string key = cluster.key_in(owner);
    const std::string where = "w" + number(static_cast<int>(cluster.store(0).partition_of(Key(key)))) + "@" +
                              cluster.address(owner);
    EXPECT_EQ(client.ask("mg " + key + " w k\r\n"), "EN " + where + " k" + key + "\r\n");
    EXPECT_EQ(client.ask("ms " + key + " 1\r\nx\r\n"), "HD\r\n");
    EXPECT_EQ(client.ask("mg " + key + " s w\r\n"), "HD s1 " + where + "\r\n");
    EXPECT_EQ(client.ask("md " + key + " w\r\n"), "CLIENT_ERROR invalid or duplicate flag\r\n");
  }
}

TEST(Peers, SaysSoWhenAnOwnerIsDead) {
  TestCluster cluster({.peer_timeout = std::chrono::milliseconds(100)});
  const std::string key = cluster.key_in(1);
  TestClient client(cluster.address(0));
  EXPECT_EQ(client.ask("set " + key + " 0 0 1\r\nx\r\n"), "STORED\r\n");
  cluster.stop(1);
  EXPECT_EQ(client.ask("set " + key + " 0 0 1\r\ny\r\n"),
            "SERVER_ERROR the owner of the key does not answer\r\n");
  EXPECT_EQ(client.ask("get " + cluster.key_in(0) + "\r\n"), "END\r\n") << "own keys are not affected";
}

}  // namespace
}  // namespace yonder::cache
