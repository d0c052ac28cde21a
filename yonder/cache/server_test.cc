#include "yonder/cache/server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "yonder/cache/internal/test_client.h"
#include "yonder/cache/internal/test_service.h"
#include "yonder/os/steady_clock.h"

namespace yonder::cache {
namespace {

struct TestServer {
  explicit TestServer(ServerOptions options = {},
                      const StoreOptions& store = {.partitions = 4, .memory_bytes = 32 << 20})
      : test(store) {
    if (options.listen.empty()) options.listen = {{.address = "127.0.0.1:0"}};
    options.threads = 2;
    server = Server::create(test.service, options).value();
  }
  std::string address() const { return server->addresses().front(); }

  TestService test;
  std::unique_ptr<Server> server;
};

template <typename Condition>
bool eventually(Condition condition) {
  const Instant give_up = os::SteadyClock::read() + std::chrono::seconds(60);
  while (!condition()) {
    if (os::SteadyClock::read() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(Server, AnswersOverTcpAndUnixSockets) {
  TestServer test(
      {.listen = {{.address = "127.0.0.1:0"}, {.address = "@rcached-test-" + std::to_string(::getpid())}}});
  for (const std::string& address : test.server->addresses()) {
    TestClient client(address);
    EXPECT_EQ(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
    EXPECT_EQ(client.ask("get a\r\n", "END\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
  }
}

TEST(Server, MakesASocketFileWithItsModeAndRemovesIt) {
  const std::string path = "/tmp/rcached-unit-" + std::to_string(::getpid()) + ".sock";
  {
    TestServer test({.listen = {{.address = path, .unix_mode = 0700}}});
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0700u);
    EXPECT_EQ(TestClient(path).ask("mn\r\n"), "MN\r\n");
    // A second server must not take the name away from the first.
    TestService other;
    EXPECT_FALSE(Server::create(other.service, {.listen = {{.address = path}}}));
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(Server, AnswersManyCommandsInOneGo) {
  TestServer test;
  TestClient client(test.address());
  std::string commands;
  for (int i = 0; i < 5000; ++i) commands += "set k" + std::to_string(i) + " 0 0 3 noreply\r\nabc\r\n";
  for (int i = 0; i < 5000; ++i) commands += "mg k" + std::to_string(i) + " s\r\n";
  const std::string replies = client.ask(commands + "version\r\n", "VERSION 1.6.18\r\n");
  EXPECT_EQ(replies.size(), 5000 * std::string_view("HD s3\r\n").size() + 16);
}

TEST(Server, TurnsClientsAwayBeyondItsLimit) {
  TestServer test({.max_connections = 2});
  TestClient first(test.address());
  TestClient second(test.address());
  EXPECT_EQ(first.ask("mn\r\n"), "MN\r\n");
  EXPECT_EQ(second.ask("mn\r\n"), "MN\r\n");
  TestClient third(test.address());
  EXPECT_EQ(third.read_to_end(), "ERROR Too many open connections\r\n");
  EXPECT_EQ(test.server->connections().rejected, 1u);
  EXPECT_EQ(first.ask("quit\r\n"), "");
  EXPECT_TRUE(eventually([&] { return test.server->connections().current == 1; }));
  EXPECT_EQ(TestClient(test.address()).ask("mn\r\n"), "MN\r\n");
}

TEST(Server, StopsReadingAClientThatTakesNoReplies) {
  TestServer test;
  TestClient setter(test.address());
  const std::string value(200000, 'v');
  EXPECT_EQ(setter.ask("set a 0 0 200000\r\n" + value + "\r\n"), "STORED\r\n");
  TestClient slow(test.address());
  constexpr int kGets = 400;
  std::string commands;
  for (int i = 0; i < kGets; ++i) commands += "get a\r\n";
  ASSERT_TRUE(slow.send(commands));
  const auto slow_readers = [&] {
    return test.test.service.counters()[static_cast<std::size_t>(Count::kSlowReaders)];
  };
  EXPECT_TRUE(eventually([&] { return slow_readers() > 0; })) << "80 MB of replies fit in no buffer";
  EXPECT_EQ(setter.ask("mn\r\n"), "MN\r\n") << "others are served";
  ASSERT_TRUE(slow.send("version\r\n"));
  const std::string all = slow.read_until("VERSION 1.6.18\r\n");
  EXPECT_EQ(all.size(),
            kGets * (value.size() + std::string_view("VALUE a 0 200000\r\n\r\nEND\r\n").size()) + 16);
}

TEST(Server, ForgetsClientsThatVanishInTheMiddleOfAValue) {
  TestServer test;
  {
    TestClient client(test.address());
    client.send("set a 0 0 100000\r\nonly a little");
    EXPECT_TRUE(eventually([&] { return test.server->connections().current == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return test.server->connections().current == 0; }));
  EXPECT_EQ(TestClient(test.address()).ask("get a\r\n"), "END\r\n");
}

TEST(Server, AnswersAClientThatHasFinishedSending) {
  TestServer test;
  TestClient client(test.address());
  client.send("set a 0 0 1\r\nx\r\nget a\r\n");
  ASSERT_TRUE(client.socket().shut_down_sending());
  EXPECT_EQ(client.read_to_end(), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST(Server, ClosesClientsThatAreIdleForTooLong) {
  TestServer test({.idle_timeout = std::chrono::seconds(1)});
  TestClient client(test.address());
  EXPECT_EQ(client.ask("mn\r\n"), "MN\r\n");
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_EQ(test.test.service.counters()[static_cast<std::size_t>(Count::kIdleKicks)], 1u);
}

TEST(Server, ShowsItsConnections) {
  TestServer test;
  TestClient client(test.address());
  const std::string report = client.ask("stats conns\r\n", "END\r\n");
  EXPECT_NE(report.find(":addr tcp:127.0.0.1:"), std::string::npos) << report;
  EXPECT_NE(report.find(":secs_since_last_cmd 0"), std::string::npos);
  EXPECT_NE(client.ask("stats\r\n", "END\r\n").find("STAT curr_connections 1\r\n"), std::string::npos);
}

TEST(Server, LooksAtAllItemsWhenAskedTo) {
  TestServer test;
  test.test.service.set_crawls(true);
  TestClient client(test.address());
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(client.ask("set k" + std::to_string(i) + " 0 -1 1\r\nx\r\n"), "STORED\r\n");
  EXPECT_EQ(client.ask("lru_crawler crawl x\r\n"), "BADCLASS invalid class id\r\n");
  EXPECT_TRUE(eventually([&] { return client.ask("lru_crawler crawl all\r\n") == "OK\r\n"; }));
  EXPECT_TRUE(eventually([&] {
    const std::string stats = client.ask("stats\r\n", "END\r\n");
    return stats.find("STAT lru_crawler_running 0\r\n") != std::string::npos &&
           stats.find("STAT curr_items 0\r\n") != std::string::npos;
  }));
  EXPECT_EQ(client.ask("lru_crawler disable\r\n"), "OK\r\n");
  EXPECT_EQ(client.ask("lru_crawler crawl all\r\n"), "CLIENT_ERROR lru crawler disabled\r\n");
}

TEST(Server, ShowsWhatItsListsWereTunedTo) {
  TestServer test;
  TestClient client(test.address());
  EXPECT_EQ(client.ask("lru tune 30 30 0.5 3\r\n"), "OK\r\n");
  const std::string settings = client.ask("stats settings\r\n", "END\r\n");
  for (const char* line : {"STAT hot_lru_pct 30\r\n", "STAT warm_lru_pct 30\r\n",
                           "STAT hot_max_factor 0.50\r\n", "STAT warm_max_factor 3.00\r\n"})
    EXPECT_NE(settings.find(line), std::string::npos) << line;
}

TEST(Server, StopsWithRepliesSentAndIdleClientsClosed) {
  TestServer test;
  TestClient idle(test.address());
  EXPECT_EQ(idle.ask("mn\r\n"), "MN\r\n");
  test.server->stop(Deadline::at(os::SteadyClock::read() + std::chrono::seconds(30)));
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(test.server->connections().current, 0u);
}

TEST(Server, RefusesOptionsItCannotServe) {
  TestService test;
  EXPECT_EQ(Server::create(test.service, {}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Server::create(test.service, {.listen = {{.address = "127.0.0.1:0"}}, .threads = 0}).error(),
            ErrorCode::kInvalidArgument);
  TestServer taken;
  EXPECT_EQ(Server::create(test.service, {.listen = {{.address = taken.address()}}}).error(),
            ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace yonder::cache
